"""Replacing ranges of a text, all at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ampify.rewrite.failure import RewriteFailed

Span: TypeAlias = tuple[int, int]

# Which of the texts inserted at one place comes first: what follows the statement above (the deeper one first), what
# goes before the statement below, what introduces it, and what indents it. Whole lines that are replaced (LINES) need
# no indenting any more, other than code that merely stands at the beginning of one (INLINE).
AFTER, BEFORE, HEADER, INDENT, INLINE, LINES = -1, 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class Splice:
    """The characters from `start` up to `end` (offsets) become `text`; `rank` orders what starts at the same place."""

    start: int
    end: int
    text: str
    rank: int = INLINE


def spliced(text: str, splices: Iterable[Splice], offset: int = 0) -> str:
    """`text`, which begins at `offset`, with all `splices` made; raises RewriteFailed if two of them overlap."""
    pieces: list[str] = []
    done = offset
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.start != splice.end, splice.rank)):
        if splice.start < done:
            raise RewriteFailed(f"two edits overlap: one makes {splice.text!r}")
        pieces += (text[done - offset : splice.start - offset], splice.text)
        done = splice.end
    return "".join([*pieces, text[done - offset :]])
