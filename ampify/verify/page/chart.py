"""Draws curves over steps as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ampify.report.html.element import element, text

# More points than these cannot be told apart in a figure this wide.
MOST_POINTS = 420
_TICKS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A curve to draw. `style` is its class: `original`, `migrated`, `seed`, or `raw` beside one of the first two."""

    style: str
    steps: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The rectangle that is drawn in, and the values at its edges. With `log`, values are their logarithms."""

    width: int
    height: int
    lowest: float
    highest: float
    last: int
    log: bool

    left: int = 52
    right: int = 10
    top: int = 8
    bottom: int = 26

    def x(self, step: float) -> float:
        """The place of a step, in pixels from the left."""
        return self.left + (self.width - self.left - self.right) * step / max(self.last, 1)

    def y(self, value: float) -> float:
        """The place of a value, in pixels from the top."""
        level = math.log10(value) if self.log else value
        share = (level - self.lowest) / ((self.highest - self.lowest) or 1.0)
        return self.top + (self.height - self.top - self.bottom) * (1 - share)


def chart(lines: Sequence[Line], title: str, marked: int | None = None) -> str:
    """The curves, once for wide windows and once for narrow ones. `marked` is a step to draw a rule at."""
    shown = [line for line in lines if any(map(math.isfinite, line.values))]
    if not shown:
        return ""
    pictures = (_picture(shown, title, width, height, name, marked) for width, height, name in _SIZES)
    return "".join(pictures)


_SIZES = ((880, 280, "wide"), (400, 240, "narrow"))


def _picture(lines: Sequence[Line], title: str, width: int, height: int, name: str, marked: int | None) -> str:
    frame = _framed(lines, width, height)
    rule = ""
    if marked is not None:
        x = f"{frame.x(marked):.1f}"
        rule = element("line", x1=x, x2=x, y1=str(frame.top), y2=str(height - frame.bottom), class_="mark")
    return element(
        "svg",
        element("title", text(title)),
        *_grid(frame),
        rule,
        *(_polyline(line, frame) for line in lines),
        viewBox=f"0 0 {width} {height}",
        class_=f"chart {name}",
        role="img",
    )


def _framed(lines: Sequence[Line], width: int, height: int) -> _Frame:
    values = [value for line in lines for value in line.values if math.isfinite(value)]
    lowest, highest = min(values), max(values)
    # Curves that fall through orders of magnitude are seen in a logarithmic scale alone.
    log = lowest > 0 and highest / lowest > 50
    if log:
        lowest, highest = math.log10(lowest), math.log10(highest)
    margin = 0.05 * (highest - lowest) or abs(highest) * 0.1 or 1.0
    last = max(step for line in lines for step in line.steps)
    return _Frame(width, height, lowest - margin, highest + margin, last, log)


def _grid(frame: _Frame) -> Iterator[str]:
    for value in _ticks(frame):
        y = f"{frame.y(value):.1f}"
        yield element("line", x1=str(frame.left), x2=str(frame.width - frame.right), y1=y, y2=y, class_="grid")
        yield element("text", _number(value), x=str(frame.left - 8), y=y, dy="0.32em", class_="tick value")
    baseline = str(frame.height - 7)
    for step in _steps(frame.last):
        yield element("text", f"{step:,}", x=f"{frame.x(step):.1f}", y=baseline, class_="tick step")
    yield element("text", "step", x=str(frame.left - 8), y=baseline, class_="tick value")


def _number(value: float) -> str:
    return f"{value:,.4g}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.3g}".replace("e+0", "e")


def _ticks(frame: _Frame) -> list[float]:
    if frame.log:
        powers = range(math.ceil(frame.lowest), math.floor(frame.highest) + 1)
        several = [10.0**power for power in powers]
        return several if len(several) > 1 else [10**level for level in _spaced(frame.lowest, frame.highest)]
    unit = _round_step((frame.highest - frame.lowest) / _TICKS)
    first = math.ceil(frame.lowest / unit)
    return [index * unit for index in range(first, math.floor(frame.highest / unit) + 1)]


def _spaced(lowest: float, highest: float) -> list[float]:
    return [lowest + (highest - lowest) * (index + 0.5) / _TICKS for index in range(_TICKS)]


def _steps(last: int) -> list[int]:
    unit = max(1, round(_round_step(last / 5)))
    return list(range(0, last + 1, unit))


def _round_step(rough: float) -> float:
    """The next number of the kind 1, 2, 5, 10 … that is no smaller."""
    power = 10 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next((factor * power for factor in (1, 2, 5, 10) if factor * power >= rough), 10 * power)


def _polyline(line: Line, frame: _Frame) -> str:
    stride = max(1, math.ceil(len(line.values) / MOST_POINTS))
    points = list(zip(line.steps, line.values, strict=True))
    kept = [*points[::stride], *points[-1:]]
    drawn = (
        (frame.x(step), frame.y(value)) for step, value in kept if math.isfinite(value) and (value > 0 or not frame.log)
    )
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in drawn), class_=f"curve {line.style}")
