"""Two versions of a file side by side, cut down to what changes and to the lines that are spoken of."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["same", "change", "gap"]
Ranges: TypeAlias = tuple[tuple[int, int], ...]

CONTEXT: Final = 3
_SMALLEST_GAP: Final = 2
_WORDS: Final = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE: Final = 0.5
# Looking for lines that are alike takes time by the product of both sides.
_PAIRS_SOUGHT: Final = 400


@dataclass(frozen=True, slots=True)
class Line:
    """A line by its number, from 1; `marks` are the ranges of columns, from 0, that differ from the other side's."""

    number: int
    text: str
    marks: Ranges = ()


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring lines of both sides. `same`: the same on both; `change`: what goes and what comes for it; `gap`:
    `hidden` lines that are left out. Where there is one version only, `new` is empty throughout."""

    kind: Kind
    old: tuple[Line, ...] = ()
    new: tuple[Line, ...] = ()
    hidden: int = 0


def compare(before: Sequence[str], after: Sequence[str] | None, spoken_of: Collection[int]) -> tuple[Block, ...]:
    """The blocks of a file, in order. `after` is None if it does not change.

    Unchanged lines are kept within three lines of a change or of a line in `spoken_of`, and a block starts at each line
    in `spoken_of`, so that what is said can stand beside it.
    """
    # Compared with itself, a file that does not change is one step.
    steps = SequenceMatcher(None, before, before if after is None else after).get_opcodes()
    changed = [(i1 + 1, i2) for tag, i1, i2, *_ in steps if tag != "equal"]
    kept = _kept(len(before), [*changed, *((line, line) for line in spoken_of)])
    blocks: list[Block] = []
    for tag, i1, i2, j1, j2 in steps:
        if tag == "equal":
            blocks += _same(before[i1:i2], i1, None if after is None else j1, kept, spoken_of)
        else:
            blocks.append(_change(before[i1:i2], i1, (after or ())[j1:j2], j1))
    return tuple(blocks)


def _kept(length: int, ranges: Sequence[tuple[int, int]]) -> set[int]:
    kept = {
        line
        for first, last in ranges
        for line in range(max(1, first - CONTEXT), min(length, max(first - 1, last) + CONTEXT) + 1)
    }
    # A gap this small takes as much room as what it hides.
    small = (range(a + 1, b) for a, b in pairwise(sorted({0, *kept, length + 1})) if b - a - 1 <= _SMALLEST_GAP)
    return kept.union(*small) if kept else kept


def _same(lines: Sequence[str], old: int, new: int | None, kept: set[int], starts: Collection[int]) -> Iterator[Block]:
    """`lines` follow `old` lines of the one side and `new` of the other."""
    start = 0
    for end in range(1, len(lines) + 1):
        here, following = old + end, old + end + 1
        if end < len(lines) and (here in kept) == (following in kept) and following not in starts:
            continue
        part = lines[start:end]
        if here in kept:
            yield Block("same", _numbered(part, old + start), () if new is None else _numbered(part, new + start))
        else:
            yield Block("gap", hidden=len(part))
        start = end


def _change(old: Sequence[str], i: int, new: Sequence[str], j: int) -> Block:
    marks = _marks(old, new)
    return Block("change", _numbered(old, i, marks[0]), _numbered(new, j, marks[1]))


def _numbered(lines: Sequence[str], before: int, marks: Sequence[Ranges] | None = None) -> tuple[Line, ...]:
    ranges = marks or [()] * len(lines)
    return tuple(Line(before + k, text, ranges[k - 1]) for k, text in enumerate(lines, 1))


def _marks(old: Sequence[str], new: Sequence[str]) -> tuple[list[Ranges], list[Ranges]]:
    """For each line that has a counterpart much like it, the ranges in which they differ."""
    marks: tuple[list[Ranges], list[Ranges]] = ([()] * len(old), [()] * len(new))
    if len(old) * len(new) > _PAIRS_SOUGHT:
        return marks
    taken = -1
    for i, line in enumerate(old):
        rated = [(_by_words(line, new[j]).ratio(), -j) for j in range(taken + 1, len(new))]
        best, at = max(rated, default=(0.0, 0))
        if best >= _ALIKE:
            taken = -at
            marks[0][i], marks[1][taken] = _differences(line, new[taken])
    return marks


def _by_words(one: str, other: str) -> SequenceMatcher[str]:
    return SequenceMatcher(None, _WORDS.findall(one.strip()), _WORDS.findall(other.strip()), autojunk=False)


def _differences(one: str, other: str) -> tuple[Ranges, Ranges]:
    steps = [step for step in _by_words(one, other).get_opcodes() if step[0] != "equal"]
    return (
        _ranges(one, [(i1, i2) for _, i1, i2, *_ in steps]),
        _ranges(other, [(j1, j2) for *_, j1, j2 in steps]),
    )


def _ranges(line: str, spans: Sequence[tuple[int, int]]) -> Ranges:
    """Spans of words as ranges of columns."""
    indent = len(line) - len(line.lstrip())
    ends = [indent]
    for word in _WORDS.findall(line.strip()):
        ends.append(ends[-1] + len(word))
    return tuple((ends[first], ends[last]) for first, last in spans if line[ends[first] : ends[last]].strip())
