"""Measures how far two loss curves are from each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from ampify.verify.record import Process
from ampify.verify.running import Run

# The smoothing window, as a share of the curve's length, and at least so many values.
_WINDOW_SHARE = 0.05
_LEAST_WINDOW = 5
# Losses below this share of the largest are compared as if they were that large: near zero, relative distance tells
# nothing of training.
_FLOOR_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Curve:
    """The losses of one backward of the script, in order; `steps` are the optimizer steps before each."""

    name: str
    values: tuple[float, ...]
    steps: tuple[int, ...]

    @property
    def smoothed(self) -> tuple[float, ...]:
        """An exponential mean over about a twentieth of the curve."""
        return smooth(self.values)


@dataclass(frozen=True, slots=True)
class Distance:
    """How far one smoothed curve is from another, relative to their size: on average, at the end, at each value."""

    mean: float
    final: float
    each: tuple[float, ...]


NO_DISTANCE = Distance(0.0, 0.0, ())


def curves_of(process: Process) -> tuple[Curve, ...]:
    """A curve for each line that calls backward, in the order of their first calls."""
    places = list(dict.fromkeys(loss.place for loss in process.losses))
    own = {place: [loss for loss in process.losses if loss.place == place] for place in places}
    return tuple(
        Curve(place, tuple(loss.value for loss in losses), tuple(loss.step for loss in losses))
        for place, losses in own.items()
    )


def smooth(values: Sequence[float]) -> tuple[float, ...]:
    """The exponential mean of `values`, without the pull of the start. What is not finite stays out of it."""
    window = max(_LEAST_WINDOW, len(values) * _WINDOW_SHARE)
    keep = 1 - 1 / window
    mean, weight, smoothed = 0.0, 0.0, []
    for value in values:
        if math.isfinite(value):
            mean, weight = keep * mean + (1 - keep) * value, keep * weight + (1 - keep)
        smoothed.append(mean / weight if weight else math.nan)
    return tuple(smoothed)


def distance(one: Curve, other: Curve) -> Distance:
    """The distance of two curves over what both have."""
    pairs = list(zip(one.smoothed, other.smoothed, strict=False))
    if not pairs:
        return NO_DISTANCE
    floor = _FLOOR_SHARE * max((abs(value) for value in one.smoothed if math.isfinite(value)), default=0.0)
    each = tuple(relative(a, b, floor) for a, b in pairs)
    return Distance(sum(each) / len(each), each[-1], each)


def relative(one: float, other: float, floor: float = 0.0) -> float:
    """The distance of two numbers relative to the larger, or to `floor` if that is larger still; in 0 … 2."""
    if not (math.isfinite(one) and math.isfinite(other)):
        return 0.0 if math.isfinite(one) == math.isfinite(other) else 1.0
    size = max(abs(one), abs(other), floor)
    return abs(one - other) / size if size else 0.0


def run_distances(one: Run, other: Run) -> tuple[Distance, ...]:
    """The distance of each curve, over all ranks, in their order."""
    pairs = zip(one.processes, other.processes, strict=False)
    curves = ((a, b) for before, after in pairs for a, b in zip(curves_of(before), curves_of(after), strict=False))
    return tuple(distance(a, b) for a, b in curves)


@dataclass(frozen=True, slots=True)
class Yardstick:
    """The largest distances between any two runs of the original with different seeds, curve by curve."""

    means: tuple[float, ...]
    finals: tuple[float, ...]
    pairs: int = 0


def yardstick(runs: Sequence[Run]) -> Yardstick:
    """The yardstick that `runs`, of the original with a seed each, give; zeros from fewer than two."""
    found = [run_distances(a, b) for a, b in combinations(runs, 2)]
    curves = max((len(distances) for distances in found), default=0)
    columns = [[distances[i] for distances in found if i < len(distances)] for i in range(curves)]
    return Yardstick(
        tuple(max(d.mean for d in column) for column in columns),
        tuple(max(d.final for d in column) for column in columns),
        len(found),
    )
