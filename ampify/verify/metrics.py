"""Reads the numbers that a script prints with a name, and compares them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from ampify.verify.curves import relative

_NUMBER = r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?"
_LINE = re.compile(rf"(?P<name>[A-Za-z][A-Za-z0-9_@ /-]*?)\s*(?:[:=]\s*|\s)\(?(?P<value>{_NUMBER})(?![\w:/.-]*\w)\s*%?")
# Counters and clocks say how far a run is, not how well.
_COUNTERS = re.compile(
    r"(?i)\b(epochs?|iter(ation)?s?|steps?|batch(es)?|time|seconds?|secs?|ms|lr|learning rate|rank|seed|scale|eta|"
    r"elapsed|size|workers|device|params|parameters|memory|mb|gb|port|pid)$"
)


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that the script prints: at the end of the original's run, and of the migrated version's.

    `distance` is relative; `noise` the largest one between runs of the original with different seeds.
    """

    name: str
    before: float
    after: float
    distance: float
    noise: float


def printed(output: str) -> dict[str, tuple[float, ...]]:
    """The values printed behind each name, in order."""
    found: dict[str, list[float]] = {}
    for line in output.splitlines():
        for match in _LINE.finditer(line):
            name = " ".join(match["name"].split()[-3:])
            if not _COUNTERS.search(name):
                found.setdefault(name, []).append(float(match["value"]))
    return {name: tuple(values) for name, values in found.items()}


def compare_metrics(original: str, again: str, seeded: Sequence[str], migrated: str) -> tuple[Metric, ...]:
    """The metrics that the original prints the same twice, and the migrated version prints as often.

    Each is taken over the last quarter of its values: the last alone can be a single batch's.
    """
    first, second, other = printed(original), printed(again), printed(migrated)
    seeds = [first, *(printed(output) for output in seeded)]
    names = [
        name for name, values in first.items() if second.get(name) == values and len(other.get(name, ())) == len(values)
    ]
    found = (_metric(name, first[name], other[name], [s[name] for s in seeds if s.get(name)]) for name in names)
    # What is the same whatever the seed is a setting that the script repeats.
    return tuple(metric for metric in found if metric.distance or metric.noise)


def _metric(name: str, before: tuple[float, ...], after: tuple[float, ...], seeds: list[tuple[float, ...]]) -> Metric:
    ends = [_end(values) for values in seeds]
    noise = max((relative(a, b) for a, b in combinations(ends, 2)), default=0.0)
    return Metric(name, _end(before), _end(after), relative(_end(before), _end(after)), noise)


def _end(values: tuple[float, ...]) -> float:
    last = values[-max(1, len(values) // 4) :]
    return sum(last) / len(last)
