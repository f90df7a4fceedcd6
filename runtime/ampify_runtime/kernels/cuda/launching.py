"""Owns what launches have in common: the engine of a call's device, its variants made ready, its tables laid out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..batches import Batch, batches_of
from ..engine import Argument, Engine
from ..engines import engine_for
from ..fallback import warn_of_fallback
from ..families import Unusable, Variant
from ..table import Laid, Part, parts_of, spans_of, table_of

Tensors = Sequence[Tensor]
# How a family's parameters follow from the element types of a call's lists; None if no variant has such types.
Values = Callable[[tuple[str, ...]], tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class Launch:
    """The launches of one kernel family over a part of the tensors."""

    engine: Engine
    variant: Variant
    part: Part

    def over(self, entry: str, lists: Sequence[int | None], *arguments: Argument) -> None:
        """Start `entry` on the part's tensors in these lists, a block a chunk; its table is the first argument."""
        table = table_of(self.part, lists, self.engine.table_bytes)
        self.engine.launch(self.variant, entry, (table.blocks, 1), table, *arguments)

    def sum_up(self, entry: str, *arguments: Argument, variant: Variant | None = None) -> None:
        """Start `entry` with a block a tensor of the part; its spans are the first argument."""
        spans = spans_of(self.part, self.engine.table_bytes)
        self.engine.launch(variant or self.variant, entry, (spans.tensors, 1), spans, *arguments)

    def of_blocks(self, like: Tensor, numbers: int = 1) -> Tensor:
        """Room for so many numbers a block of the part; float32, not initialized."""
        return torch.empty(max(self.part.blocks, 1) * numbers, dtype=torch.float32, device=like.device)


@dataclass(frozen=True, slots=True)
class Plan:
    """A call that kernels will carry out: everything that could still be refused has been found out."""

    engine: Engine
    family: str
    batches: tuple[tuple[Variant, Batch], ...]

    def launches(self, widest: int) -> Iterator[Launch]:
        """The parts of all batches; `widest` is the most lists that a kernel of the call takes."""
        for variant, batch in self.batches:
            for part in parts_of(batch.lists, batch.indices, widest, self.engine.table_bytes):
                yield Launch(self.engine, variant, part)


def plan_of(
    family: str,
    lists: Sequence[Tensors | None],
    values: Values,
    *,
    read_only: int = 0,
    also: Sequence[Variant] = (),
) -> Plan | None:
    """How the kernels of `family` will do a call, or None if plain torch has to: then nothing has been launched.

    The variants of all batches, and those in `also`, are ready afterwards. A variant that cannot be is warned of.
    """
    batches = batches_of(lists, read_only)
    device = next((tensors[0].device for tensors in lists if tensors), None)
    if batches is None or device is None:
        return None
    engine = engine_for(device)
    if isinstance(engine, str):
        return None
    chosen = [(values(batch.types), batch) for batch in batches]
    planned = tuple((Variant(family, found), batch) for found, batch in chosen if found is not None)
    if len(planned) < len(batches):
        return None
    if not ready(engine, *(variant for variant, _ in planned), *also):
        return None
    note_written(lists[read_only:])
    return Plan(engine, family, planned)


def note_written(lists: Sequence[Tensors | None]) -> None:
    """Count up the versions of tensors that kernels write: autograd's checks and amp's masters go by them."""
    for tensors in lists:
        for tensor in tensors or ():
            if not tensor.is_inference():
                torch.autograd.graph.increment_version(tensor)


def ready(engine: Engine, *variants: Variant) -> bool:
    """Make `variants` ready; False, and a warning, if one cannot be."""
    try:
        for variant in variants:
            engine.prepare(variant)
    except Unusable as reason:
        warn_of_fallback(str(reason))
        return False
    return True


__all__ = ["Laid", "Launch", "Plan", "plan_of", "ready"]
