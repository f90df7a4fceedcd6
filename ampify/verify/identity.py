"""Finds the first thing in which two runs differ, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ampify.verify.record import Loss, Process, Step
from ampify.verify.running import Run


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference: in which step (from 1) of which rank, in what, and both values in words, if they have any.

    `places` are lines in the two versions; `kind` is `loss`, `rate`, `norm`, `weights`, `steps` or `processes`.
    """

    kind: str
    rank: int
    step: int
    what: str
    before: str
    after: str
    places: tuple[str, str] = ("", "")

    @property
    def sentence(self) -> str:
        """The difference in a sentence."""
        rank = f", rank {self.rank}" if self.rank else ""
        values = f"is {self.after} instead of {self.before}" if self.before else "differs"
        return f"step {self.step}{rank}: {self.what} {values}"


def first_difference(before: Run, after: Run) -> Difference | None:
    """The earliest difference between two runs, of all ranks; None if all that was recorded is the same."""
    if len(before.processes) != len(after.processes):
        counts = (str(len(before.processes)), str(len(after.processes)))
        return Difference("processes", 0, 0, "the number of processes that train", *counts)
    pairs = zip(before.processes, after.processes, strict=True)
    found = [difference for one, other in pairs if (difference := next(_differences(one, other), None))]
    return min(found, key=lambda difference: difference.step, default=None)


def _differences(before: Process, after: Process) -> Iterator[Difference]:
    last = max(_last(before), _last(after))
    for number in range(last + 1):
        yield from _of_losses(before.rank, number, _losses(before, number), _losses(after, number))
        yield from _of_step(before, after, number)


def _last(process: Process) -> int:
    return max((*(step.number for step in process.steps[-1:]), *(loss.step for loss in process.losses[-1:])), default=0)


def _losses(process: Process, step: int) -> list[Loss]:
    return [loss for loss in process.losses if loss.step == step]


def _of_losses(rank: int, step: int, before: Sequence[Loss], after: Sequence[Loss]) -> Iterator[Difference]:
    for one, other in zip_longest(before, after):
        if one is None or other is None:
            present = one or other
            said = (_loss(one), _loss(other))
            places = (one.place if one else "", other.place if other else "")
            yield Difference("loss", rank, step + 1, f"the loss of the backward in {present.place}", *said, places)
        elif _bits(one.value) != _bits(other.value):
            places = (one.place, other.place)
            yield Difference("loss", rank, step + 1, "the loss", _number(one.value), _number(other.value), places)


def _of_step(before: Process, after: Process, number: int) -> Iterator[Difference]:
    one, other = _step(before, number + 1), _step(after, number + 1)
    if one is None or other is None:
        if one is not other:
            counts = (str(len(before.steps)), str(len(after.steps)))
            yield Difference("steps", before.rank, number + 1, "the number of optimizer steps", *counts)
        return
    places = (one.place, other.place)
    if one.rates != other.rates:
        rates = (_numbers(one.rates), _numbers(other.rates))
        yield Difference("rate", before.rank, one.number, f"the learning rate of {one.name}", *rates, places)
    if _bits(one.norm) != _bits(other.norm):
        norms = (_number(one.norm), _number(other.norm))
        yield Difference("norm", before.rank, one.number, "the norm of the gradients", *norms, places)
    if one.digest and other.digest and one.digest != other.digest:
        name = _tensor(before, one, other)
        yield Difference("weights", before.rank, one.number, f"{name} after the step", "", "", places)


def _step(process: Process, number: int) -> Step | None:
    return process.steps[number - 1] if number <= len(process.steps) else None


def _tensor(process: Process, one: Step, other: Step) -> str:
    names = process.names.get(one.optimizer, ())
    pairs = zip_longest(one.digest, other.digest)
    index = next(index for index, (a, b) in enumerate(pairs) if a != b)
    return names[index] if index < len(names) else f"parameter {index} of {one.name}"


def _loss(loss: Loss | None) -> str:
    return "none" if loss is None else _number(loss.value)


def _number(value: float) -> str:
    return f"{value:.9g}"


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.9g}" for value in values)


def _bits(value: float) -> str:
    # One NaN is as good as another.
    return value.hex() if value == value else "nan"
