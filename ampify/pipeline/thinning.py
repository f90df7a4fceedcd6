"""Blanks the bulk of long lists of numbers while the stages look at a file: they say nothing, and cost much to read.

Every line keeps its length, so that all places are those of the original. A region starts behind the first number of
a list and ends behind the comma of a later one: what is left is Python where the original is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ampify.model.plan import Outcome
from ampify.model.source import SourceFile

# Start and end of what is blanked, as offsets into a text.
Region: TypeAlias = tuple[int, int]

# Characters; a file with less in it is read before it would be searched.
WORTH_SEARCHING: Final = 100_000
WORTH_BLANKING: Final = 2_000
_NUMBER: Final = r"[+-]?(?:\d+\.\d*|\.\d+|[1-9]\d*|0)(?:[eE][+-]?\d+)?"
_ROW: Final = rf"[\[(]\s*{_NUMBER}\s*(?:,\s*{_NUMBER}\s*)*,?\s*[\])]"
_ITEM: Final = re.compile(rf"\s*(?:{_NUMBER}|{_ROW})\s*,")
# Where numbers, and what may stand between them, go on for long.
_RUN: Final = re.compile(rf"[\d.,+\-eE\s\[\]()]{{{WORTH_BLANKING},}}")
_OPENING: Final = re.compile(r"[\[(,]")
_FILLED: Final = re.compile(r"[^\r\n]+")
# Lists may hold lists, and a run may start in the midst of anything: so many places are tried as the start of a region.
_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class Thinned:
    """A file, and the same with its regions blanked; `cut` are the texts of these before, `left` the blanks there."""

    before: SourceFile
    after: SourceFile
    cut: tuple[str, ...]
    left: tuple[str, ...]

    def restored(self, text: str) -> str | None:
        """`text`, made of the blanked one by edits elsewhere, with all that was cut; None if the edits were there."""
        thin = self.after.text
        if any(text.count(blank) != thin.count(blank) for blank in Counter(self.left)):
            return None
        parts: list[str] = []
        place = 0
        for blank, cut in zip(self.left, self.cut, strict=True):
            found = text.find(blank, place)
            if found < 0:
                return None
            parts += [text[place:found], cut]
            place = found + len(blank)
        return "".join((*parts, text[place:]))


def thin_sources(sources: Mapping[str, SourceFile]) -> dict[str, Thinned]:
    """Those of `sources` that have long lists of numbers, by path."""
    long = (s for s in sources.values() if len(s.text) >= WORTH_SEARCHING and s.notebook is None)
    return {source.path: thinned for source in long if (thinned := _thinned(source)) is not None}


def shown_whole(outcome: Outcome, thinned: Thinned | None) -> Outcome | None:
    """The outcome of a file as it was read; None if its new text cannot be had from that of the thinned one."""
    if thinned is None:
        return outcome
    before = thinned.before if outcome.before is not None else None
    if outcome.after is None:
        return replace(outcome, before=before)
    text = thinned.restored(outcome.after)
    return None if text is None else replace(outcome, before=before, after=text)


def _thinned(source: SourceFile) -> Thinned | None:
    text = source.text
    regions = tuple(_regions(text))
    if not regions:
        return None
    cut = tuple(text[start:end] for start, end in regions)
    # The comma before tells blanks of ours from others.
    left = tuple(_blanked(part) for part in cut)
    parts: list[str] = []
    place = 0
    for (start, end), blank in zip(regions, left, strict=True):
        parts += [text[place:start], blank]
        place = end
    after = replace(source, text="".join((*parts, text[place:])))
    return Thinned(source, after, cut, left)


def _blanked(part: str) -> str:
    return part[0] + _FILLED.sub(lambda found: " " * len(found[0]), part[1:])


def _regions(text: str) -> Iterator[Region]:
    for run in _RUN.finditer(text):
        start = run.start()
        for _ in range(_TRIES):
            opening = _OPENING.search(text, start, run.end())
            if opening is None:
                break
            start = opening.end()
            region = _region(text, start, run.end())
            if region is not None:
                yield region
                break


def _region(text: str, start: int, end: int) -> Region | None:
    """From the comma behind the first item at `start` to behind the comma of the last one in a row."""
    first = _ITEM.match(text, start, end)
    if first is None:
        return None
    place = first.end()
    while (item := _ITEM.match(text, place, end)) is not None:
        place = item.end()
    return (first.end() - 1, place) if place - first.end() >= WORTH_BLANKING else None
