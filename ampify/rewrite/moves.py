"""Edits of whole statements: what goes before and after them, around them, and which of them go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import libcst as cst

from ampify.rewrite.blocks import Block, Line, Statement
from ampify.rewrite.failure import RewriteFailed
from ampify.rewrite.layout import Shift, laid_out, lines_inside_strings, shifted
from ampify.rewrite.splice import AFTER, BEFORE, HEADER, INDENT, LINES, Splice
from ampify.rewrite.tree import Tree
from ampify.source import split_lines


@dataclass(slots=True)
class Orders:
    """What is to happen to one statement: code before and after it, a header it moves under ("" if that of the
    statement that it `follows`), its removal."""

    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    header: str | None = None
    deleted: bool = False
    follows: Statement | None = None

    @property
    def breaks_line(self) -> bool:
        """Whether the statement needs lines of its own."""
        return bool(self.before or self.after) or self.header is not None

    @property
    def empties(self) -> bool:
        """Whether nothing is left in the statement's place."""
        return self.deleted and not self.before and not self.after


@dataclass(frozen=True, slots=True)
class Moves:
    """The edits of whole statements in one file."""

    tree: Tree
    newline: str
    statements: Sequence[Statement]
    orders: Mapping[Statement, Orders]

    def shifts(self, statement: Statement) -> list[Shift]:
        """What wraps around the statement, its own not among them, do to its lines."""
        return [self._shift(outer) for outer in statement.around() if self._header(outer) is not None]

    def shifts_inside(self, statement: Statement) -> list[Shift]:
        """What all wraps, its own among them, do to the lines of the statement."""
        own = [self._shift(statement)] if self._header(statement) is not None else []
        return own + self.shifts(statement)

    def splices(self) -> Iterator[Splice]:
        """The changes of the text that make the edits."""
        emptied = self._emptied_blocks()
        for statement in self.orders:
            if statement.line is None:
                yield from self._compound(statement, emptied)
        lines = self._lines()
        for members in lines.values():
            if any(member in self.orders for member in members):
                yield from self._simple(members, emptied)
        yield from self._indenting(lines)

    def _lines(self) -> Mapping[Line, list[Statement]]:
        lines: dict[Line, list[Statement]] = defaultdict(list)
        for statement in self.statements:
            if statement.line is not None:
                lines[statement.line].append(statement)
        return lines

    def _header(self, statement: Statement) -> str | None:
        orders = self.orders.get(statement)
        return orders.header if orders else None

    def _shift(self, statement: Statement) -> Shift:
        return Shift(statement.block.indentation, statement.block.unit)

    def _emptied_blocks(self) -> Mapping[Block, Statement]:
        """Blocks of which nothing is left, each with its first statement, in whose place `pass` will stand."""
        members: dict[Block, list[Statement]] = defaultdict(list)
        for statement in self.statements:
            if statement.branch_of is None:
                members[statement.block].append(statement)
        return {
            block: inside[0]
            for block, inside in members.items()
            if block.owner is not None and all(self._orders(one).empties for one in inside)
        }

    def _orders(self, statement: Statement) -> Orders:
        return self.orders.get(statement) or Orders()

    def _compound(self, statement: Statement, emptied: Mapping[Block, Statement]) -> Iterator[Splice]:
        if statement.branch_of is not None:
            raise RewriteFailed(f"nothing can go around an `elif` (line {self.tree.line_number(statement.span[0])})")
        orders = self.orders[statement]
        start, end = statement.extent
        if emptied.get(statement.block) is statement:
            yield Splice(start, end, "pass")
            return
        yield from self._lines_above(statement)
        if orders.deleted:
            yield Splice(self.tree.line_start(start), self.tree.line_end(end), "", LINES)
        yield from self._lines_below(statement, orders.after)

    def _simple(self, members: Sequence[Statement], emptied: Mapping[Block, Statement]) -> Iterator[Splice]:
        """The changes of one logical line of simple statements."""
        suite = members[0].block.suite is not None
        kept = [member for member in members if not self._orders(member).deleted]
        if not kept:
            yield from self._vanishing(members, emptied, suite)
            return
        breaks = any(self._orders(member).breaks_line for member in members)
        first, last = kept[0], kept[-1]
        if suite and breaks:
            skipped = members[: members.index(first)]
            yield Splice(self._after_colon(members[0]), first.span[0], self._break(None, skipped, first))
        else:
            yield from self._line_begins(members, first)
        for one, other in pairwise(kept):
            yield from self._gap(members, one, other)
        skipped = members[members.index(last) + 1 :]
        if skipped:
            yield Splice(last.span[1], skipped[-1].span[1], "")
        after = [*self._orders(last).after, *(code for one in skipped for code in self._codes(one))]
        yield from self._lines_below(members[-1], after)

    def _line_begins(self, members: Sequence[Statement], first: Statement) -> Iterator[Splice]:
        """Before the first statement that is kept of a line that already is one."""
        skipped = members[: members.index(first)]
        if skipped:
            yield Splice(skipped[0].span[0], first.span[0], "")
        codes = [code for one in skipped for code in self._codes(one)]
        yield from self._lines_above(first, codes, members[0])

    def _gap(self, members: Sequence[Statement], one: Statement, other: Statement) -> Iterator[Splice]:
        """Between two statements of a line that are kept, with those between them going."""
        place = members.index(one)
        skipped = members[place + 1 : members.index(other)]
        involved = self._orders(one).after or self._orders(one).header is not None or self._begins_line(other)
        if involved or any(self._codes(gone) for gone in skipped):
            yield Splice(one.span[1], other.span[0], self._break(one, skipped, other))
        elif skipped:
            separator = self.tree.text[one.span[1] : members[place + 1].span[0]]
            yield Splice(one.span[1], other.span[0], separator)

    def _begins_line(self, statement: Statement) -> bool:
        orders = self._orders(statement)
        return bool(orders.before) or orders.header is not None

    def _break(self, one: Statement | None, skipped: Sequence[Statement], other: Statement) -> str:
        """A line break before `other` with all the code that goes there."""
        codes = [*(self._orders(one).after if one else ()), *(code for gone in skipped for code in self._codes(gone))]
        indentation = shifted(other.block.indentation, self.shifts(other))
        lines = "".join(self._laid_out(code, other) for code in [*codes, *self._orders(other).before])
        header = self._header_lines(other)
        unit = other.block.unit if self._header(other) is not None else ""
        return self.newline + lines + header + indentation + unit

    def _codes(self, statement: Statement) -> list[str]:
        orders = self._orders(statement)
        return [*orders.before, *orders.after]

    def _vanishing(
        self, members: Sequence[Statement], emptied: Mapping[Block, Statement], suite: bool
    ) -> Iterator[Splice]:
        """A line of which no statement is kept; what is new there takes its place."""
        start, end = members[0].span[0], members[-1].span[1]
        codes = [code for member in members for code in self._codes(member)]
        if emptied.get(members[0].block) is members[0]:
            yield Splice(start, end, "pass")
        elif suite:
            lines = "".join(self._laid_out(code, members[0]) for code in codes)
            yield Splice(self._after_colon(members[0]), end, self.newline + lines.removesuffix(self.newline))
        else:
            lines = "".join(self._laid_out(code, members[0]) for code in codes)
            line_end = self.tree.line_end(end - 1)
            if line_end == len(self.tree.text) and not self.tree.text.endswith(("\n", "\r")):
                lines = lines.removesuffix(self.newline)
            yield Splice(self.tree.line_start(start), line_end, lines, LINES)

    def _lines_above(
        self, statement: Statement, replacing: Sequence[str] = (), first: Statement | None = None
    ) -> Iterator[Splice]:
        """New lines and the header before a statement that begins a line, above the comments that belong to it.

        Code `replacing` other statements goes where those were, below the comments; `first` is the first of them.
        """
        anchor = first or statement
        codes = [*replacing, *self._orders(statement).before]
        if codes:
            place = self.tree.line_start(anchor.extent[0]) if replacing else self._above_comments(anchor)
            yield Splice(place, place, "".join(self._laid_out(code, statement) for code in codes), BEFORE)
        header = self._header_lines(statement)
        if header:
            place = anchor.extent[0] - len(self.tree.indentation(anchor.extent[0]))
            yield Splice(place, place, header, HEADER)

    def _above_comments(self, statement: Statement) -> int:
        start = self.tree.line_start(statement.extent[0])
        node = statement.line or statement.node
        if node is self.tree.module.body[0]:
            return start
        assert isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        number = self.tree.line_number(start)
        for line in reversed(node.leading_lines):
            if line.comment is None:
                break
            number -= 1
        return self.tree.line_starts[number - 1]

    def _lines_below(self, statement: Statement, codes: Sequence[str]) -> Iterator[Splice]:
        """New lines after the line that `statement` ends on, and after comments that belong into its block."""
        if not codes:
            return
        place = self.tree.line_end(statement.extent[1] - 1)
        if statement.line is None:
            place = self._below_comments(place, statement.block.indentation)
        text = "".join(self._laid_out(code, statement) for code in codes)
        if place == len(self.tree.text) and not self.tree.text.endswith(("\n", "\r")):
            text = self.newline + text.removesuffix(self.newline)
        depth = sum(1 for _ in statement.around())
        yield Splice(place, place, text, AFTER - depth)

    def _below_comments(self, place: int, indentation: str) -> int:
        """The end of the comments from `place` on that are indented deeper than `indentation`."""
        end = place
        for line in split_lines(self.tree.text[place:]):
            content = line.lstrip(" \t\f")
            deeper = line.startswith(indentation) and line[len(indentation) :][:1] in (" ", "\t")
            place += len(line)
            if content.startswith("#") and deeper:
                end = place
            elif content.strip():
                break
        return end

    def _laid_out(self, code: str, statement: Statement) -> str:
        block = statement.block
        return laid_out(code, shifted(block.indentation, self.shifts(statement)), block.unit, self.newline)

    def _header_lines(self, statement: Statement) -> str:
        """The header that the statement moves under, as lines, or nothing."""
        header = self._header(statement)
        if not header:
            return ""
        lines = [line.rstrip("\r\n") for line in split_lines(header)]
        indentation = shifted(statement.block.indentation, self.shifts(statement))
        return indentation + self.newline.join(lines) + self.newline

    def _after_colon(self, statement: Statement) -> int:
        return self.tree.text.rindex(":", 0, statement.span[0]) + 1

    def _indenting(self, lines: Mapping[Line, Sequence[Statement]]) -> Iterator[Splice]:
        """What puts the lines of wrapped statements one level deeper."""
        wrapped = [statement for statement, orders in self.orders.items() if orders.header is not None]
        inside = lines_inside_strings(self.tree) if wrapped else frozenset()
        for statement in wrapped:
            first = self.tree.line_number(statement.extent[0]) + 1
            yield from self._comments_indented(statement)
            beginning = self._beginning(statement, lines)
            if beginning is not None:
                yield from self._indented(self.tree.line_number(beginning), self._shift(statement))
            for number in range(first, self.tree.line_number(statement.extent[1] - 1) + 1):
                if number not in inside:
                    yield from self._indented(number, self._shift(statement))

    def _comments_indented(self, statement: Statement) -> Iterator[Splice]:
        """What puts the lines deeper that stand between a statement and the one it moves after."""
        before = self._orders(statement).follows
        if before is not None:
            last = self.tree.line_number(before.extent[1] - 1)
            for number in range(last + 1, self.tree.line_number(statement.extent[0])):
                yield from self._indented(number, self._shift(statement))

    def _beginning(self, statement: Statement, lines: Mapping[Line, Sequence[Statement]]) -> int | None:
        """Where the line begins that the statement is the first to be left on; None if a break before it indents it."""
        if statement.line is None:
            return statement.extent[0]
        members = lines[statement.line]
        above = members[: members.index(statement)]
        if statement.block.suite is not None or not all(self._orders(one).deleted for one in above):
            return None
        return members[0].span[0]

    def _indented(self, number: int, shift: Shift) -> Iterator[Splice]:
        start, end = self.tree.line_starts[number - 1], self.tree.line_starts[number]
        content = self.tree.text[start:end].lstrip(" \t\f")
        if not content.strip():
            return
        indentation = self.tree.indentation(start)
        place = end - len(content) - len(indentation)
        place += len(shift.base) if indentation.startswith(shift.base) else 0
        yield Splice(place, place, shift.unit, INDENT)
