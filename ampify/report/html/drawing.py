"""Draws the flow of a loop as SVG: across for wide windows, down for narrow ones.

Boxes with a dashed edge are parts that the loop does not have. Every state has a picture besides its colour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from ampify.report.html.element import element, text
from ampify.report.html.flow import Flow, Place, Stage, StageState
from ampify.report.markup import shortened

Target: TypeAlias = Callable[[Place], str | None]

WORDS: Final[dict[StageState, str]] = {
    "rewritten": "rewritten",
    "right": "right already",
    "refused": "refused",
    "not_training": "not training",
    "named": "",
    "absent": "none",
}


@dataclass(frozen=True, slots=True)
class _Layout:
    """Sizes in the units of the drawing. `across`: the boxes stand in a row, else one below the other."""

    across: bool
    width: int
    height: int
    gap: int
    letters: int
    margin: int = 6
    back: int = 46

    def corner(self, index: int) -> tuple[int, int]:
        """The upper left corner of a box."""
        along = self.margin + index * ((self.width if self.across else self.height) + self.gap)
        return (along, self.margin) if self.across else (self.margin, along)

    def size(self, count: int) -> tuple[int, int]:
        """The size of the whole drawing, with room for the way back."""
        along = count * ((self.width if self.across else self.height) + self.gap) - self.gap + 2 * self.margin
        beside = (self.height if self.across else self.width) + 2 * self.margin + self.back
        return (along, beside) if self.across else (beside, along)


ACROSS: Final = _Layout(across=True, width=160, height=82, gap=24, letters=18)
DOWN: Final = _Layout(across=False, width=258, height=64, gap=24, letters=30)


def drawings(flow: Flow, target: Target) -> str:
    """Both drawings; the style sheet shows one of them."""
    return drawn(flow, ACROSS, target) + drawn(flow, DOWN, target)


def drawn(flow: Flow, layout: _Layout, target: Target) -> str:
    """One drawing. `target` gives the address of a line, None where it is not on the page."""
    width, height = layout.size(len(flow.stages))
    parts = [_box(stage, index, flow, layout, target) for index, stage in enumerate(flow.stages)]
    arrows = [_arrow(index, layout) for index in range(len(flow.stages) - 1)]
    return element(
        "svg",
        element("title", text(_described(flow))),
        *arrows,
        _way_back(flow, layout),
        *parts,
        class_="flow across" if layout.across else "flow down",
        viewBox=f"0 0 {width} {height}",
        width=str(width),
        height=str(height),
        role="group",
        aria_label=_described(flow),
    )


def _described(flow: Flow) -> str:
    told = (f"{stage.title}{f': {WORDS[stage.state]}' if WORDS[stage.state] else ''}" for stage in flow.stages)
    return f"Flow of the loop: {', then '.join(told)}"


def _box(stage: Stage, index: int, flow: Flow, layout: _Layout, target: Target) -> str:
    x, y = layout.corner(index)
    shape = element(
        "rect", x=str(x), y=str(y), width=str(layout.width), height=str(layout.height), rx="7", class_="box"
    )
    title = _words(stage.title, x + 12, y + 20, "stage")
    label, detail = _lines(stage, flow)
    # What a loop has two of stands on two lines where one is too short.
    split = layout.across and stage.state == "named" and len(label) > layout.letters
    told = label.split(", ", 1) if split else [label]
    lines = [
        title,
        *(_words(shortened(part, layout.letters), x + 12, y + 41 + 19 * n, "label") for n, part in enumerate(told)),
    ]
    picture = ""
    if stage.state not in ("named", "absent"):
        picture = _picture(stage.state, x + layout.width - 27, y + 9)
    if layout.across:
        lines.append(_words(shortened(detail, layout.letters + 5), x + 12, y + 65, "detail"))
    elif detail:
        lines.append(_words(shortened(detail, 24), x + layout.width - 34, y + 20, "detail ending"))
    # With spaces between them, since they are what a link here is called.
    group = element("g", shape, " ".join(lines), picture, class_=f"node {stage.state}")
    address = target(stage.places[0]) if stage.places else None
    return element("a", group, href=address) if address else group


def _lines(stage: Stage, flow: Flow) -> tuple[str, str]:
    """What a box says: an expression or the lines, and what became of it."""
    if stage.state == "absent":
        return "none", ""
    where = _lines_of(stage.places, flow)
    if stage.labels:
        more = f" +{len(stage.labels) - 2}" if len(stage.labels) > 2 else ""
        label = f"{', '.join(stage.labels[:2])}{more}"
        return label, " · ".join(part for part in (where, WORDS[stage.state]) if part)
    return where, WORDS[stage.state]


def _lines_of(places: Sequence[Place], flow: Flow) -> str:
    """The lines, by the name of the first one's file where that is not the loop's."""
    if not places:
        return ""
    named = [flow.names.within(path, line) for path, line in places]
    if places[0][0] != flow.path:
        more = f" +{len(places) - 1}" if len(places) > 1 else ""
        return f"{PurePosixPath(places[0][0]).name}:{named[0]}{more}"
    shown = [
        name if path == flow.path else f"{PurePosixPath(path).name}:{name}"
        for name, (path, _) in zip(named[:2], places, strict=False)
    ]
    more = f" +{len(places) - 2}" if len(places) > 2 else ""
    unit = "" if flow.path in flow.names.notebooks else "lines " if len(places) > 1 else "line "
    return f"{unit}{', '.join(shown)}{more}"


def _words(content: str, x: int, y: int, kind: str) -> str:
    return element("text", text(content), x=str(x), y=str(y), class_=kind) if content else ""


def _picture(state: str, x: int, y: int) -> str:
    return f'<use href="#icon-{state}" x="{x}" y="{y}" width="15" height="15" class="picture"/>'


def _arrow(index: int, layout: _Layout) -> str:
    x, y = layout.corner(index)
    if layout.across:
        start, end = (x + layout.width, y + layout.height // 2), (x + layout.width + layout.gap, y + layout.height // 2)
    else:
        start, end = (x + 40, y + layout.height), (x + 40, y + layout.height + layout.gap)
    return _path(
        f"M{start[0]} {start[1]} L{end[0] - (2 if layout.across else 0)} {end[1] - (0 if layout.across else 2)}"
    )


def _way_back(flow: Flow, layout: _Layout) -> str:
    """From the step to the next batch's backward."""
    (x1, y1), (x2, y2) = layout.corner(flow.last), layout.corner(flow.first)
    where = _lines_of(flow.cleared, flow)
    said = f"next batch · zero_grad {where}" if where else "next batch"
    if layout.across:
        a, b, low = x1 + layout.width // 2, x2 + layout.width // 2, layout.margin + layout.height + 24
        curve = f"M{a} {y1 + layout.height} V{low - 8} Q{a} {low} {a - 8} {low} H{b + 8} Q{b} {low} {b} {low - 8} "
        curve += f"V{y2 + layout.height + 2}"
        middle = element("text", text(said), x=str((a + b) // 2), y=str(low + 16), class_="detail middle")
    else:
        a, b, far = y1 + layout.height // 2, y2 + layout.height // 2, layout.margin + layout.width + 18
        right = layout.margin + layout.width
        curve = f"M{right} {a} H{far - 8} Q{far} {a} {far} {a - 8} V{b + 8} Q{far} {b} {far - 8} {b} H{right + 2}"
        x, y = far + 14, (a + b) // 2
        middle = element(
            "text", text(said), transform=f"rotate(90 {x} {y})", x=str(x), y=str(y), class_="detail middle"
        )
    return _path(curve, "back") + middle


def _path(curve: str, kind: str = "") -> str:
    return element("path", d=curve, class_=f"arrow {kind}".rstrip(), marker_end="url(#arrowhead)", fill="none")
