"""A file's concrete syntax tree, with the place of every node in the text."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from ampify.rewrite.excerpt import UP_TO_FORM_FEED, Excerpt
from ampify.rewrite.failure import RewriteFailed
from ampify.rewrite.splice import Span


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of `text`. `spans` are offsets into the text; as with `ast`, outer parentheses are no part of a node.

    `line_starts` are the offsets of the lines, and the end of the text at last. The module may be of an excerpt.
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
        feed = UP_TO_FORM_FEED.match(line)
        rest = line[feed.end() :] if feed else line
        return rest[: len(rest) - len(rest.lstrip(" \t"))]


def parse(read: Excerpt) -> Tree:
    """The tree of a Python module; raises RewriteFailed if LibCST cannot read it or would change it."""
    try:
        module = cst.parse_module(read.plain)
    except cst.ParserSyntaxError as error:
        raise RewriteFailed(f"LibCST cannot read it: {error.message}") from error
    # LibCST forgets a final "\r" and blanks at the very end; that moves nothing.
    if module.code.rstrip() != read.plain.rstrip():
        raise RewriteFailed("LibCST would not give its text back unchanged")
    ranges = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    spans = {node: _span(place, read.places) for node, place in ranges.items()}
    return Tree(read.text, module, spans, read.line_starts)


def _span(place: CodeRange, places: Sequence[int]) -> Span:
    return (places[place.start.line - 1] + place.start.column, places[place.end.line - 1] + place.end.column)
