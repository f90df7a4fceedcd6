"""What LibCST has to read of a file for some edits: parsing all of a long file would cost more than all the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, takewhile
from typing import Final

from ampify.model.edit import AddImport, Edit, EditLines, Wrap
from ampify.model.section import Section
from ampify.source import split_lines

# A form feed resets Python's indentation, and LibCST's generated code drops it: it is hidden from LibCST.
UP_TO_FORM_FEED: Final = re.compile(r"[ \t\f]*\f")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of `text`, joined to `plain`, a module by themselves.

    `places` are the offsets into the text at which the lines of `plain` begin, and `line_starts` those of all lines;
    both have the end of the text at last.
    """

    text: str
    plain: str
    places: tuple[int, ...]
    line_starts: tuple[int, ...]


def excerpt(text: str, sections: Sequence[Section] = (), edits: Iterable[Edit] = ()) -> Excerpt:
    """`text` without those of its `sections` that `edits` have nothing to do with."""
    lines = split_lines(text)
    starts = tuple(accumulate(map(len, lines), initial=0))
    shown: list[str] = []
    places: list[int] = []
    for number in chain.from_iterable(_lines_to_read(sections, edits, len(lines))):
        line = lines[number - 1]
        hidden = match.end() if (match := UP_TO_FORM_FEED.match(line)) else 0
        shown.append(line[hidden:])
        places.append(starts[number - 1] + hidden)
    return Excerpt(text, "".join(shown), (*places, starts[-1]), starts)


def _lines_to_read(sections: Sequence[Section], edits: Iterable[Edit], count: int) -> list[range]:
    """The lines, of `count` in all, that make a module by themselves and hold all that `edits` speak of.

    Kept are the sections that are edited, each with the comments above it, and what the placing of imports looks at:
    all imports, and everything down to the first block. Without `sections`, all lines.
    """
    if not sections:
        return [range(1, count + 1)]
    edited = [_lines_of(edit) for edit in edits if not isinstance(edit, AddImport | EditLines)]
    opening = sum(1 for _ in takewhile(lambda section: section.kind != "block", sections)) + 1
    kept = [
        place < opening
        or section.kind == "import"
        or any(first <= section.last and section.first <= last for first, last in edited)
        for place, section in enumerate(sections)
    ]
    return list(_with_what_is_between(sections, kept, count))


def _lines_of(edit: Edit) -> tuple[int, int]:
    """The first and the last line of the statements that an edit is bound to."""
    assert not isinstance(edit, AddImport | EditLines)
    end = edit.last if isinstance(edit, Wrap) and edit.last is not None else edit.anchor
    return edit.anchor.line, end.end_line


def _with_what_is_between(sections: Sequence[Section], kept: Sequence[bool], count: int) -> Iterator[range]:
    start = 1
    for section, keeps in zip(sections, kept, strict=True):
        if keeps:
            yield range(start, section.last + 1)
        start = section.last + 1
    if kept[-1]:
        yield range(start, count + 1)
