"""Lays out the tables that multi-tensor kernels get by value; csrc/table.cuh has the same layout."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

# Elements of a tensor that one block works on.
CHUNK = 16384
# For tables, of the 32,764 and 4,096 bytes that a kernel's arguments may take; the rest is for the others.
LARGE_TABLE = 32256
SMALL_TABLE = 3584
# CUDA 12.1, as drivers number it: the first to take more than 4,096 bytes.
LARGE_TABLE_DRIVER = 12010


@dataclass(frozen=True, slots=True)
class Laid:
    """A table or spans as bytes, and the blocks and tensors that it speaks of."""

    content: ctypes.Array[ctypes.c_char]
    blocks: int
    tensors: int


@dataclass(frozen=True, slots=True)
class Part:
    """What one launch covers: some tensors of each list, where their blocks begin, and where they stand in the call."""

    lists: tuple[Sequence[Tensor], ...]
    elements: Sequence[int]
    first_blocks: Sequence[int]
    indices: Sequence[int]
    blocks: int


def capacity_of_table(lists: int, size: int) -> int:
    """How many tensors a table of `size` bytes holds: a pointer a list, elements, first block and index each."""
    return (size - 8) // (8 * lists + 16)


def capacity_of_spans(size: int) -> int:
    """How many tensors spans of `size` bytes hold: first block and index each."""
    return (size - 8) // 8


def parts_of(lists: Sequence[Sequence[Tensor]], indices: Sequence[int], widest: int, size: int) -> Iterator[Part]:
    """Cut `lists` into launches, so that tables of up to `widest` lists hold each."""
    step = capacity_of_table(widest, size)
    for start in range(0, len(indices), step):
        chosen = slice(start, start + step)
        elements = [tensor.numel() for tensor in lists[0][chosen]]
        firsts, blocks = [], 0
        for count in elements:
            firsts.append(blocks)
            blocks += -(-count // CHUNK)
        yield Part(tuple(tensors[chosen] for tensors in lists), elements, firsts, indices[chosen], blocks)


def table_of(part: Part, lists: Sequence[int | None], size: int) -> Laid:
    """The table of `part` for a kernel that takes the lists at these places; None where it has none."""
    capacity, count = capacity_of_table(len(lists), size), len(part.elements)
    content = ctypes.create_string_buffer(_padded(capacity * (8 * len(lists) + 16) + 4))
    for place, chosen in enumerate(lists):
        if chosen is not None:
            pointers = [tensor.data_ptr() for tensor in part.lists[chosen]]
            struct.pack_into(f"={count}Q", content, 8 * capacity * place, *pointers)
    after = 8 * capacity * len(lists)
    struct.pack_into(f"={count}q", content, after, *part.elements)
    struct.pack_into(f"={count}I", content, after + 8 * capacity, *part.first_blocks)
    struct.pack_into(f"={count}I", content, after + 12 * capacity, *part.indices)
    struct.pack_into("=I", content, after + 16 * capacity, count)
    return Laid(content, part.blocks, count)


def spans_of(part: Part, size: int) -> Laid:
    """Where the blocks of each tensor of `part` begin."""
    capacity, count = capacity_of_spans(size), len(part.elements)
    content = ctypes.create_string_buffer(8 * capacity + 8)
    struct.pack_into(f"={count}I", content, 0, *part.first_blocks)
    struct.pack_into(f"={count}I", content, 4 * capacity, *part.indices)
    struct.pack_into("=II", content, 8 * capacity, count, part.blocks)
    return Laid(content, part.blocks, count)


def _padded(size: int) -> int:
    return -(-size // 8) * 8
