"""The files: two versions side by side, with what is said of each line beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from ampify.report.html.colouring import Span, coloured, python_spans
from ampify.report.html.comparison import Block, Line
from ampify.report.html.element import element, text
from ampify.report.html.notes import badge, note_card
from ampify.report.html.sections import Section
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
    """The kinds of words in both versions of a section, by line."""

    old: Mapping[int, tuple[Span, ...]]
    new: Mapping[int, tuple[Span, ...]]

    @classmethod
    def of(cls, section: Section, path: str) -> _Colours:
        """Those of a section of the file at `path`; none if it is no Python."""
        if not path.endswith((".py", ".pyw", ".ipynb", ">")):
            return cls({}, {})
        return cls(python_spans(section.before), python_spans(section.after or ()))


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
    shown = (_section(section, view, views) for section in view.sections)
    body = element("div", *shown, class_=f"diff{'' if outcome.after is not None else ' single'}")
    return element(
        "details", summary, *reason, *loose, body, class_="file", id=f"f{view.number}", open=opened, data_group=True
    )


def _counts(view: FileView) -> str:
    if view.outcome.after is None:
        return ""
    counts = [changed_lines(section.before, section.after or ()) for section in view.sections]
    added, removed = (sum(side) for side in zip(*counts, strict=True))
    spoken = f"{counted(added, 'line')} added, {counted(removed, 'line')} removed"
    shown = element("span", f"+{added}", class_="added") + element("span", f"−{removed}", class_="removed")  # noqa: RUF001
    return element(
        "span",
        element("span", shown, aria_hidden="true"),
        element("span", spoken, class_="spoken"),
        class_="counts",
    )


def _section(section: Section, view: FileView, views: Views) -> str:
    """The blocks, in runs that start where something is said, so that notes have the height of all that follows."""
    colours = _Colours.of(section, view.outcome.path)
    segments: list[list[Block]] = [[]]
    for block in section.blocks:
        if _told(block, section, view):
            segments.append([])
        segments[-1].append(block)
    title = element("h4", section.title, class_="cell") if section.title else ""
    return title + "".join(_segment(segment, section, view, views, colours) for segment in segments if segment)


def _segment(blocks: Sequence[Block], section: Section, view: FileView, views: Views, colours: _Colours) -> str:
    first, *others = (_block(block, section, view.number, colours) for block in blocks)
    notes = [note_card(note, views) for note in _told(blocks[0], section, view)]
    said = element("div", *notes, class_="notes") if notes else ""
    # In the order in which it is read: the lines, what is said of them, what follows.
    return element("div", element("div", first), said, element("div", *others) if others else "", class_="segment")


def _told(block: Block, section: Section, view: FileView) -> list[Note]:
    return [note for line in block.old for note in view.notes.get(section.above + line.number, ())]


def _block(block: Block, section: Section, file: int, colours: _Colours) -> str:
    if block.kind == "gap":
        return element("p", f"{counted(block.hidden, 'line')} not shown", class_="gap")
    kinds = ("del", "ins") if block.kind == "change" else ("same", "same")
    old = [_line(line, colours.old, kinds[0], f"f{file}-{section.above + line.number}") for line in block.old]
    new = [_line(line, colours.new, kinds[1]) for line in block.new]
    if block.kind == "change":
        old, new = _padded(old, new)
    # Lines that are the same are there once more for the eye alone.
    again = "true" if block.kind == "same" else None
    sides = element("div", *old, class_="old")
    if section.after is not None:
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
