"""The files: two versions side by side, with what is said of each line beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from ampify.report.html.colouring import Span, coloured, python_spans
from ampify.report.html.comparison import Block, Line
from ampify.report.html.element import element, text
from ampify.report.html.notes import badge, note_card
from ampify.report.html.views import FileView, Note, Views
from ampify.report.markdown import changed_lines
from ampify.report.wording import counted

# More files than these start closed, so that the page opens at once and can be looked over.
_OPEN: Final = 12
_STATES: Final[Mapping[str, tuple[str, str]]] = {
    "changed": ("rewritten", "changed"),
    "unchanged": ("right", "unchanged"),
    "refused": ("refused", "refused"),
    "failed": ("refused", "failed"),
    "skipped": ("not_training", "skipped"),
}


@dataclass(frozen=True, slots=True)
class _Colours:
    """The kinds of words in both versions of a file, by line."""

    old: Mapping[int, tuple[Span, ...]]
    new: Mapping[int, tuple[Span, ...]]

    @classmethod
    def of(cls, view: FileView) -> _Colours:
        """Those of a file; none if it is no Python."""
        if not view.outcome.path.endswith((".py", ".pyw", ">")):
            return cls({}, {})
        return cls(python_spans(view.before), python_spans(view.after or ()))


def files_section(views: Views) -> str:
    """All files of the page."""
    if not views.files:
        return ""
    files = [_file(view, views, opened=len(views.files) <= _OPEN) for view in views.files.values()]
    head = element("h2", "Files ", element("span", str(len(files)), class_="count"))
    return element("section", head, *files, id="files", aria_label="Files", data_group=True)


def _file(view: FileView, views: Views, *, opened: bool) -> str:
    outcome = view.outcome
    state, words = _STATES[outcome.status]
    name = element("code", text(outcome.path), class_="path")
    summary = element("summary", element("h3", name), badge(state, words), _counts(view))
    loose = [note_card(note, views) for note in view.notes.get(0, ())]
    # What a whole file is said to be, such as one that cannot be read, has no line to stand beside.
    reason = [element("p", text(outcome.reason), class_="reason")] if outcome.status in ("failed", "skipped") else []
    body = element("div", *_segments(view, views), class_=f"diff{'' if view.after is not None else ' single'}")
    return element(
        "details", summary, *reason, *loose, body, class_="file", id=f"f{view.number}", open=opened, data_group=True
    )


def _counts(view: FileView) -> str:
    if view.after is None:
        return ""
    added, removed = changed_lines(view.before, view.after)
    spoken = f"{counted(added, 'line')} added, {counted(removed, 'line')} removed"
    shown = element("span", f"+{added}", class_="added") + element("span", f"−{removed}", class_="removed")  # noqa: RUF001
    return element(
        "span",
        element("span", shown, aria_hidden="true"),
        element("span", spoken, class_="spoken"),
        class_="counts",
    )


def _segments(view: FileView, views: Views) -> Iterable[str]:
    """The blocks, in runs that start where something is said, so that notes have the height of all that follows."""
    colours = _Colours.of(view)
    segments: list[list[Block]] = [[]]
    for block in view.blocks:
        if _told(block, view):
            segments.append([])
        segments[-1].append(block)
    return (_segment(segment, view, views, colours) for segment in segments if segment)


def _segment(blocks: Sequence[Block], view: FileView, views: Views, colours: _Colours) -> str:
    first, *others = (_block(block, view, colours) for block in blocks)
    notes = [note_card(note, views) for note in _told(blocks[0], view)]
    said = element("div", *notes, class_="notes") if notes else ""
    # In the order in which it is read: the lines, what is said of them, what follows.
    return element("div", element("div", first), said, element("div", *others) if others else "", class_="segment")


def _told(block: Block, view: FileView) -> list[Note]:
    return [note for line in block.old for note in view.notes.get(line.number, ())]


def _block(block: Block, view: FileView, colours: _Colours) -> str:
    if block.kind == "gap":
        return element("p", f"{counted(block.hidden, 'line')} not shown", class_="gap")
    kinds = ("del", "ins") if block.kind == "change" else ("same", "same")
    old = [_line(line, colours.old, kinds[0], f"f{view.number}-{line.number}") for line in block.old]
    new = [_line(line, colours.new, kinds[1]) for line in block.new]
    if block.kind == "change":
        old, new = _padded(old, new)
    # Lines that are the same are there once more for the eye alone.
    again = "true" if block.kind == "same" else None
    sides = element("div", *old, class_="old")
    if view.after is not None:
        sides += element("div", *new, class_="new", aria_hidden=again)
    return element("div", sides, class_=f"block {block.kind}")


def _padded(old: Sequence[str], new: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both sides as long as the longer one."""
    empty = element("div", class_="line none", aria_hidden="true")
    rows = list(zip_longest(old, new, fillvalue=empty))
    return [row[0] for row in rows], [row[1] for row in rows]


def _line(line: Line, spans: Mapping[int, tuple[Span, ...]], kind: str, name: str | None = None) -> str:
    shown = coloured(line, spans.get(line.number, ()))
    tag = kind if kind in ("del", "ins") else "span"
    number = element("span", str(line.number), class_="number")
    return element("div", number, element(tag, shown, class_="code"), class_=f"line {kind}", id=name)
