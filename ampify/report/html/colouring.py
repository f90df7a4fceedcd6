"""Lines of Python with keywords, strings and comments told apart, and differences marked."""

from __future__ import annotations

import keyword
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from ampify.report.html.comparison import Line
from ampify.report.html.element import text

Span: TypeAlias = tuple[int, int, str]

_KINDS: Final = {"STRING": "s", "COMMENT": "c", "NUMBER": "n"}


def python_spans(lines: Sequence[str]) -> Mapping[int, tuple[Span, ...]]:
    """By line, from 1, the ranges of columns and their kinds: k keyword, s string, c comment, n number.

    Nothing from the place on where the text is no Python.
    """
    spans: dict[int, list[Span]] = {}
    for first, last, kind in _tokens(lines):
        for number in range(first[0], last[0] + 1):
            start = first[1] if number == first[0] else 0
            end = last[1] if number == last[0] else len(lines[number - 1])
            spans.setdefault(number, []).append((start, end, kind))
    return {number: tuple(found) for number, found in spans.items()}


def coloured(line: Line, spans: Sequence[Span]) -> str:
    """One line as HTML."""
    cuts = {0, len(line.text)}
    cuts.update(column for start, end, _ in spans for column in (start, end))
    cuts.update(column for mark in line.marks for column in mark)
    indent = len(line.text) - len(line.text.lstrip(" \t"))
    cuts = {indent, *(cut for cut in cuts if indent < cut <= len(line.text))}
    pieces = (_piece(line, start, end, spans) for start, end in pairwise(sorted(cuts)))
    # The style sheet sees to it that a long line does not wrap right behind its indentation.
    return (f'<span class="indent">{line.text[:indent]}</span>' if indent else "") + "".join(pieces)


def _piece(line: Line, start: int, end: int, spans: Sequence[Span]) -> str:
    shown = text(line.text[start:end])
    kind = next((kind for first, last, kind in spans if first <= start and end <= last), None)
    if kind is not None:
        shown = f'<span class="{kind}">{shown}</span>'
    marked = any(first <= start and end <= last for first, last in line.marks)
    return f"<mark>{shown}</mark>" if marked else shown


def _tokens(lines: Sequence[str]) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    reader = iter([f"{line}\n" for line in lines])
    try:
        for token in tokenize.generate_tokens(lambda: next(reader, "")):
            name = tokenize.tok_name[token.type]
            kind = "s" if name.startswith("FSTRING") else _KINDS.get(name)
            if name == "NAME" and keyword.iskeyword(token.string):
                kind = "k"
            if kind is not None and token.end[0] <= len(lines):
                yield token.start, token.end, kind
    except (tokenize.TokenError, SyntaxError):
        return
