"""Sorts lists of tensors into batches that one variant of a kernel can take, as flat memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .families import ELEMENT_TYPES, NOTHING

Tensors = Sequence[Tensor]
_PLAIN = {torch.Tensor, torch.nn.Parameter}


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors of the same types: `types` names those of each list, `indices` says where they stand in the call."""

    types: tuple[str, ...]
    lists: tuple[Tensors, ...]
    indices: Sequence[int]


def batches_of(lists: Sequence[Tensors | None], read_only: int = 0) -> list[Batch] | None:
    """Batches of `lists`, None if the kernels cannot take some tensor: of another type, or not dense in memory.

    A list that is None is absent, and its type `nothing`. Each i-th tensor of all lists must have the same elements in
    the same order in memory; the first `read_only` lists are copied where they have not. Raises ValueError for lists
    that do not fit each other, TypeError for a sparse tensor.
    """
    present = [tensors for tensors in lists if tensors is not None]
    _check_fit(present)
    count = len(present[0])
    groups: dict[tuple[torch.dtype, ...], Sequence[int]] = {}
    if all(_is_uniform(tensors) for tensors in present):
        ready = present
        if count:
            groups[tuple(tensors[0].dtype for tensors in present)] = range(count)
    else:
        flat = [_flat(row, read_only) for row in zip(*present, strict=True)]
        if any(row is None for row in flat):
            return None
        ready = [list(tensors) for tensors in zip(*(row for row in flat if row is not None), strict=True)]
        groups = _grouped(ready)
    if any(dtype not in ELEMENT_TYPES for dtypes in groups for dtype in dtypes):
        return None
    return [_batch(lists, ready, dtypes, indices) for dtypes, indices in groups.items()]


def _batch(
    lists: Sequence[Tensors | None], ready: Sequence[Tensors], dtypes: tuple[torch.dtype, ...], indices: Sequence[int]
) -> Batch:
    whole = len(indices) == len(ready[0])
    chosen = iter(ready if whole else [[tensors[i] for i in indices] for tensors in ready])
    names = iter(dtypes)
    types = tuple(NOTHING if tensors is None else ELEMENT_TYPES[next(names)] for tensors in lists)
    return Batch(types, tuple(() if tensors is None else next(chosen) for tensors in lists), indices)


def _check_fit(lists: Sequence[Tensors]) -> None:
    lengths = {len(tensors) for tensors in lists}
    if len(lengths) > 1:
        raise ValueError(f"lists that belong together have different lengths: {[len(tensors) for tensors in lists]}")
    first = lists[0]
    for tensors in lists[1:]:
        for i, (one, other) in enumerate(zip(first, tensors, strict=True)):
            if one.shape != other.shape:
                raise ValueError(
                    f"tensors at {i} have different shapes: {tuple(one.shape)} and {tuple(other.shape)}; "
                    "lists belong together tensor by tensor"
                )
    devices = {tensor.device for tensors in lists for tensor in tensors}
    if len(devices) > 1:
        raise ValueError(f"tensors of one call are on several devices: {', '.join(sorted(map(str, devices)))}")


def _is_uniform(tensors: Tensors) -> bool:
    """Whether all are plain, contiguous and of one dtype: the usual case, and quick to see."""
    for tensor in tensors:
        if type(tensor) not in _PLAIN or tensor.layout is not torch.strided:
            return False
        if not tensor.is_contiguous() or tensor.is_neg():
            return False
    return len({tensor.dtype for tensor in tensors}) <= 1


def _flat(row: tuple[Tensor, ...], read_only: int) -> tuple[Tensor, ...] | None:
    """The tensors with like elements at like offsets, the read-only ones copied if need be; None if that cannot be."""
    for tensor in row:
        if tensor.layout is not torch.strided:
            raise TypeError(f"a {tensor.layout} tensor of shape {tuple(tensor.shape)}: operations take dense tensors")
    model = row[read_only] if read_only < len(row) else row[-1]
    if not _is_dense(model) or not all(_has_memory(tensor) for tensor in row):
        return None
    if any(_offsets(tensor) != _offsets(model) or tensor.is_neg() for tensor in row[read_only:]):
        return None
    return tuple(
        tensor if _offsets(tensor) == _offsets(model) and not tensor.is_neg() else _copied(tensor, model)
        for tensor in row
    )


def _offsets(tensor: Tensor) -> tuple[int, ...]:
    """What tells where elements are: the strides of the dimensions that have several."""
    return tuple(stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)


def _copied(tensor: Tensor, model: Tensor) -> Tensor:
    return torch.empty_like(model, dtype=tensor.dtype, memory_format=torch.preserve_format).copy_(tensor)


def _has_memory(tensor: Tensor) -> bool:
    """False for a tensor that only stands for others, as a distributed one does."""
    try:
        return tensor.data_ptr() != 0 or tensor.numel() == 0
    except RuntimeError:
        return False


def _is_dense(tensor: Tensor) -> bool:
    """Whether the elements fill one stretch of memory, in whatever order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 0:
            return True
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _grouped(lists: Sequence[Tensors]) -> dict[tuple[torch.dtype, ...], Sequence[int]]:
    groups: dict[tuple[torch.dtype, ...], list[int]] = {}
    for i, row in enumerate(zip(*lists, strict=True)):
        groups.setdefault(tuple(tensor.dtype for tensor in row), []).append(i)
    return dict(groups)
