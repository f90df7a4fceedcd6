"""A file's concrete syntax tree, with the place of every node in the text."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from ampify.rewrite.failure import RewriteFailed
from ampify.rewrite.splice import Span
from ampify.source import split_lines

# A form feed resets Python's indentation, and LibCST's generated code drops it: it is hidden from LibCST.
_UP_TO_FORM_FEED: Final = re.compile(r"[ \t\f]*\f")


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of `text`. `spans` are offsets into the text; as with `ast`, outer parentheses are no part of a node.

    `line_starts` are the offsets of the lines, and the end of the text at last.
    """

    text: str
    module: cst.Module
    spans: Mapping[cst.CSTNode, Span]
    line_starts: tuple[int, ...]

    def span(self, node: cst.CSTNode) -> Span:
        """Where `node` stands."""
        return self.spans[node]

    def offset(self, line: int, column: int) -> int:
        """The offset of a 1-based line and 0-based column; raises RewriteFailed if the text has no such place."""
        if not 1 <= line <= len(self.line_starts):
            raise RewriteFailed(f"there is no line {line}")
        place = self.line_starts[line - 1] + column
        if place > self.line_starts[min(line, len(self.line_starts) - 1)]:
            raise RewriteFailed(f"line {line} has no column {column}")
        return place

    def line_start(self, place: int) -> int:
        """The offset of the first character of the line that holds offset `place`."""
        return self.line_starts[self.line_number(place) - 1]

    def line_end(self, place: int) -> int:
        """The offset just past the line, and its line end, that holds offset `place`."""
        return self.line_starts[min(self.line_number(place), len(self.line_starts) - 1)]

    def line_number(self, place: int) -> int:
        """The 1-based number of the line that holds offset `place`."""
        return bisect.bisect_right(self.line_starts, place)

    def indentation(self, place: int) -> str:
        """The white space that the line of offset `place` begins with, after a form feed."""
        start, end = self.line_start(place), self.line_end(place)
        line = self.text[start:end]
        feed = _UP_TO_FORM_FEED.match(line)
        rest = line[feed.end() :] if feed else line
        return rest[: len(rest) - len(rest.lstrip(" \t"))]


def parse(text: str) -> Tree:
    """The tree of a Python module; raises RewriteFailed if LibCST cannot read it or would change it."""
    lines = split_lines(text)
    hidden = [match.end() if (match := _UP_TO_FORM_FEED.match(line)) else 0 for line in lines]
    plain = "".join(line[size:] for line, size in zip(lines, hidden, strict=True))
    try:
        module = cst.parse_module(plain)
    except cst.ParserSyntaxError as error:
        raise RewriteFailed(f"LibCST cannot read it: {error.message}") from error
    # LibCST forgets a final "\r" and blanks at the very end; that moves nothing.
    if module.code.rstrip() != plain.rstrip():
        raise RewriteFailed("LibCST would not give its text back unchanged")
    line_starts = _line_starts(lines)
    visible = [start + size for start, size in zip(line_starts, [*hidden, 0], strict=True)]
    ranges = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    return Tree(text, module, {node: _span(place, visible) for node, place in ranges.items()}, line_starts)


def _line_starts(lines: list[str]) -> tuple[int, ...]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return tuple(starts)


def _span(place: CodeRange, visible: list[int]) -> Span:
    return (visible[place.start.line - 1] + place.start.column, visible[place.end.line - 1] + place.end.column)
