"""Whether text outside the edits came through unchanged, line by line and word by word."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from ampify.model.edit import AddImport, Delete, Edit, EditLines, InsertAfter, InsertBefore, Replace, Wrap
from ampify.source import split_lines

_Place: TypeAlias = tuple[int, int]
_LAYOUT: Final = frozenset(
    {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
)


def text_trouble(before: str, tree: ast.Module, after: str, edits: Sequence[Edit]) -> str | None:
    """What differs between `before`, parsed as `tree`, and `after` that no edit accounts for; None if nothing does."""
    imports = {_statement(edit) for edit in edits if isinstance(edit, AddImport)}
    old, new = split_lines(before), split_lines(after)
    for statement in sorted(imports):
        if _count(new, statement) > _count(old, statement) + 1:
            return f"`{statement}` was added more than once"
    first_lines = _first_lines(tree)
    # To split a text into words takes longer than all that is done with them.
    tokens = tuple(_tokens(before))
    reach = _reach(old, first_lines, tokens, edits)
    trouble = _line_trouble(old, _without(new, imports), imports, reach)
    if trouble is not None and imports:
        trouble = _line_trouble(old, _without(_closed_up(new, imports), imports), imports, reach)
    return trouble or _word_trouble(tokens, first_lines, after, edits)


def _statement(edit: AddImport) -> str:
    if edit.name is None:
        return f"import {edit.module}"
    return f"from {edit.module} import {edit.name}" + (f" as {edit.asname}" if edit.asname else "")


def _count(lines: Sequence[str], statement: str) -> int:
    return sum(line.rstrip("\r\n") == statement for line in lines)


def _without(lines: Sequence[str], statements: set[str]) -> list[str]:
    return [line for line in lines if line.rstrip("\r\n") not in statements]


def _closed_up(lines: Sequence[str], statements: set[str]) -> list[str]:
    """The lines without the two empty ones that part an import from a definition where there was no import before."""
    for index in range(len(lines) - 2):
        if lines[index].rstrip("\r\n") in statements and not any(
            line.strip("\r\n") for line in lines[index + 1 : index + 3]
        ):
            return [*lines[: index + 1], *lines[index + 3 :]]
    return list(lines)


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far the edits reach: the 1-based lines they may change, and those that new lines may go before."""

    lines: frozenset[int]
    gaps: frozenset[int]

    def runs(self, size: int) -> Iterator[tuple[int, int]]:
        """The runs of lines, of `size` in all, that must stay as they are: first line, and the one after the last."""
        borders = {1, size + 1, *self.gaps, *self.lines, *(number + 1 for number in self.lines)}
        inside = sorted(border for border in borders if 1 <= border <= size + 1)
        return ((start, end) for start, end in pairwise(inside) if start not in self.lines)


def _reach(
    old: Sequence[str], first_lines: Mapping[int, int], tokens: Iterable[tokenize.TokenInfo], edits: Sequence[Edit]
) -> _Reach:
    lines: set[int] = set()
    gaps: set[int] = set()
    firsts, lasts = _logical_lines(tokens)
    for edit in edits:
        if isinstance(edit, AddImport | EditLines):
            continue
        start = firsts[first_lines.get(edit.anchor.line, edit.anchor.line)]
        end = lasts[_end_line(edit)]
        if isinstance(edit, InsertBefore):
            lines |= set(range(start, lasts[edit.anchor.line] + 1))
            gaps |= _comments(old, start, -1)
        elif isinstance(edit, InsertAfter):
            lines |= set(range(firsts[edit.anchor.end_line], end + 1))
            gaps |= _comments(old, end, 1)
        else:
            lines |= set(range(start, end + 1))
    return _Reach(frozenset(lines), frozenset(gaps))


def _end_line(edit: Edit) -> int:
    """The last line of the statements that an edit is bound to."""
    assert not isinstance(edit, AddImport | EditLines)
    wrapped = edit.last if isinstance(edit, Wrap) else None
    return (wrapped or edit.anchor).end_line


def _logical_lines(tokens: Iterable[tokenize.TokenInfo]) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """For each physical line of code the first and the last one of the logical line that it is a part of."""
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    first = None
    for token in tokens:
        if token.type == tokenize.NEWLINE and first is not None:
            physical = range(first, token.start[0] + 1)
            firsts.update(dict.fromkeys(physical, first))
            lasts.update(dict.fromkeys(physical, token.start[0]))
            first = None
        elif token.type not in _LAYOUT and token.type != tokenize.COMMENT and first is None:
            first = token.start[0]
    return firsts, lasts


def _first_lines(tree: ast.Module) -> Mapping[int, int]:
    """Where decorated functions and classes begin, by the line that `ast` has them on."""
    definitions = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )
    return {node.lineno: node.decorator_list[0].lineno for node in definitions if node.decorator_list}


def _comments(old: Sequence[str], line: int, step: int) -> set[int]:
    """Gaps among the comments (below also empty lines) next to `line`, upward or downward."""
    found: set[int] = set()
    number = line + step
    while 1 <= number <= len(old) and (
        old[number - 1].strip()[:1] == "#" or (step > 0 and not old[number - 1].strip())
    ):
        found |= {number, number + 1}
        number += step
    return found


def _line_trouble(old: Sequence[str], new: Sequence[str], imports: set[str], reach: _Reach) -> str | None:
    """The first run of lines out of the edits' reach that is not found again, as a whole and in its order."""
    place = 0
    for start, end in reach.runs(len(old)):
        run = _without(old[start - 1 : end - 1], imports)
        candidates = range(place, len(new) - len(run) + 1)
        if start == 1:
            candidates = candidates[:1]
        if end == len(old) + 1:
            candidates = candidates[-1:]
        found = next((at for at in candidates if all(map(_same, run, new[at:]))), None)
        if found is None:
            return f"lines {start} to {end - 1} are outside the edits, but were changed"
        place = found + len(run)
    return None


def _same(old: str, new: str) -> bool:
    # A last line without a line end gets one when something is appended.
    return old == new or (not old.endswith(("\n", "\r")) and new.rstrip("\r\n") == old)


def _word_trouble(
    tokens: Iterable[tokenize.TokenInfo], first_lines: Mapping[int, int], after: str, edits: Sequence[Edit]
) -> str | None:
    """The first word, comments included, that was lost or changed, though no edit takes it away."""
    remaining = iter(_words(_tokens(after)))
    for word, place in _words_to_stay(tokens, first_lines, edits):
        if not any(word == found for found, _, _ in remaining):
            return f"{word!r} on line {place[0]} is outside the edits, but was lost or changed"
    return None


def _words_to_stay(
    tokens: Iterable[tokenize.TokenInfo], first_lines: Mapping[int, int], edits: Sequence[Edit]
) -> Iterator[tuple[str, _Place]]:
    gone = [(edit.anchor.start, edit.anchor.end) for edit in edits if isinstance(edit, Replace)]
    for edit in edits:
        if isinstance(edit, Delete):
            line = first_lines.get(edit.anchor.line)
            gone.append((edit.anchor.start if line is None else (line, 0), edit.anchor.end))
    opened = {edit.anchor.start for edit in edits if isinstance(edit, Replace)}
    closed = {edit.anchor.end for edit in edits if isinstance(edit, Replace)}
    # The comment on the line of a statement that goes is about it.
    emptied = {edit.anchor.end_line for edit in edits if isinstance(edit, Delete)}
    words = list(_words(tokens))
    nowhere = ("", (0, 0), (0, 0))
    for (_, _, done), (word, start, end), (_, following, _) in zip(
        [nowhere, *words], words, [*words[1:], nowhere], strict=False
    ):
        # Before Python 3.12 an f-string is a single word, whatever is replaced inside it.
        inside = any((first <= start and end <= last) or (start <= first and last <= end) for first, last in gone)
        # Parentheses that only what was replaced needed may go with it.
        parenthesis = (word == "(" and following in opened) or (word == ")" and done in closed)
        comment = word.startswith("#") and start[0] in emptied
        if not (inside or parenthesis or comment):
            yield word, start


def _words(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tuple[str, _Place, _Place]]:
    for token in tokens:
        if token.type not in _LAYOUT and token.string != ";":
            yield token.string, token.start, token.end


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return tokenize.generate_tokens(io.StringIO(plain).readline)
