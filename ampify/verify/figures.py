"""Puts the figures of a verification into words: speed, memory, losses, precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from ampify.verify.curves import curves_of
from ampify.verify.record import Process, Work
from ampify.verify.running import Run
from ampify.verify.session import Verification

REDUCED = ("float16", "bfloat16")
# The sampled step, the one after it, and the first, in which buffers are made, are no measure of speed.
_UNTIMED = (1, 3, 4)


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of the original and of the migrated version, in words; `before` is empty where there is none."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Share:
    """The work of one module in the sampled step: operations, and the share of them in reduced precision."""

    module: str
    flops: int
    reduced: float


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of a verification."""

    rows: tuple[Row, ...]
    precision: tuple[Share, ...]


def figures_of(verification: Verification) -> Figures:
    """The figures that the runs give; fewer where a run is missing."""
    original, level = verification.run("original"), verification.run("level")
    work = [row for process in level.processes for row in process.work] if level else []
    return Figures(tuple(_rows(verification, original, level, work)), _shares(work))


def _rows(verification: Verification, original: Run | None, level: Run | None, work: list[Work]) -> Iterator[Row]:
    if original is None or level is None or not level.processes or not original.processes:
        return
    one, other = original.processes[0], level.processes[0]
    yield Row("optimizer steps", str(len(one.steps)), str(len(other.steps)))
    skipped = sum(step.skipped for step in other.steps)
    if skipped or any(step.scale != 1.0 for step in other.steps):
        scale = other.steps[-1].scale if other.steps else 1.0
        yield Row("steps skipped", "", f"{skipped}; loss scale {scale:g} at the end")
    yield from _losses(verification, one, other)
    for metric in verification.compared.metrics:
        yield Row(metric.name, f"{metric.before:.6g}", f"{metric.after:.6g} (seeds: {metric.noise:.1%})")
    yield Row("median time of a step", *(_seconds(median_step(process)) for process in (one, other)))
    yield Row(f"peak memory ({other.memory})", _bytes(one.peak), _bytes(other.peak))
    total, reduced = sum(row.flops for row in work), sum(row.flops for row in work if row.dtype in REDUCED)
    if total:
        yield Row("work in reduced precision", "", f"{reduced / total:.1%} of {total:.3g} operations a step")


def _losses(verification: Verification, one: Process, other: Process) -> Iterator[Row]:
    curves = zip(curves_of(one), curves_of(other), verification.compared.distances, strict=False)
    for before, after, distance in curves:
        ends = (f"{before.smoothed[-1]:.6g}", f"{after.smoothed[-1]:.6g} (mean distance {distance.mean:.2%})")
        yield Row(f"loss of {after.name}", *ends)


def ratio_of_time(verification: Verification) -> float:
    """The migrated version's median time of a step over the original's; 0 where one is missing."""
    original, level = verification.run("original"), verification.run("level")
    if original is None or level is None or not original.processes or not level.processes:
        return 0.0
    before, after = median_step(original.processes[0]), median_step(level.processes[0])
    return after / before if before else 0.0


def ratio_of_memory(verification: Verification) -> float:
    """The migrated version's peak memory over the original's; 0 where one is missing."""
    original, level = verification.run("original"), verification.run("level")
    if original is None or level is None or not original.processes or not level.processes:
        return 0.0
    before, after = original.processes[0].peak, level.processes[0].peak
    return after / before if before else 0.0


def median_step(process: Process) -> float:
    """The median time from one step to the next, in seconds; 0 if there are too few."""
    times = [step.seconds for step in process.steps if step.number not in _UNTIMED]
    return median(times) if times else 0.0


def _shares(work: Iterable[Work]) -> tuple[Share, ...]:
    totals: Counter[str] = Counter()
    reduced: Counter[str] = Counter()
    for row in work:
        totals[row.module] += row.flops
        reduced[row.module] += row.flops if row.dtype in REDUCED else 0
    return tuple(Share(name, total, reduced[name] / total if total else 0.0) for name, total in totals.items())


def _seconds(value: float) -> str:
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"


def _bytes(value: int) -> str:
    return f"{value / 2**20:,.0f} MiB"
