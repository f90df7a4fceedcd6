"""The statements of a file, by the blocks and lines they stand in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import libcst as cst

from ampify.rewrite.splice import Span
from ampify.rewrite.tree import Tree

Line: TypeAlias = cst.SimpleStatementLine | cst.SimpleStatementSuite
_DEFAULT_UNIT: Final = "    "


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Statements at one indentation. `unit` is what a block inside it is indented by.

    `owner` is the compound statement it belongs to, None for the module. A block written on its owner's line has a
    `suite`; its indentation is then the one it would get on lines of its own.
    """

    indentation: str
    unit: str
    owner: Statement | None
    suite: cst.SimpleStatementSuite | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A statement: `line` is the logical line a simple one stands on, None for a compound one.

    `span` is `ast`'s; `extent` also holds the decorators. An `elif`, which
    `ast` has as a statement of its own, but which cannot be moved, has the statement it is a `branch_of`.
    """

    node: cst.CSTNode
    block: Block
    span: Span
    extent: Span
    line: Line | None = None
    branch_of: Statement | None = None

    def around(self) -> Iterator[Statement]:
        """The compound statements that it stands in, the innermost first."""
        outer = self.branch_of or self.block.owner
        while outer is not None:
            yield outer
            outer = outer.branch_of or outer.block.owner


def statements_of(tree: Tree) -> tuple[Statement, ...]:
    """All statements, in the order of the text."""
    return tuple(_Walk(tree, _commonest_unit(tree)).module())


@dataclass(frozen=True, slots=True)
class _Walk:
    tree: Tree
    unit: str

    def module(self) -> Iterator[Statement]:
        yield from self._body(self.tree.module.body, Block("", self.unit, None))

    def _body(self, body: Sequence[cst.BaseStatement], block: Block) -> Iterator[Statement]:
        for node in body:
            if isinstance(node, cst.SimpleStatementLine):
                yield from self._simple(node, block)
            else:
                yield from self._compound(node, block)

    def _simple(self, line: Line, block: Block) -> Iterator[Statement]:
        for node in line.body:
            span = self.tree.span(node)
            yield Statement(node, block, span, span, line)

    def _compound(self, node: cst.CSTNode, block: Block, branch_of: Statement | None = None) -> Iterator[Statement]:
        suites = list(_suites(node))
        span = (self.tree.span(node)[0], self._end(suites[-1]))
        decorators = node.decorators if isinstance(node, cst.FunctionDef | cst.ClassDef) else ()
        start = self.tree.span(decorators[0])[0] if decorators else span[0]
        statement = Statement(node, block, span, (start, span[1]), branch_of=branch_of)
        yield statement
        for suite in suites:
            if isinstance(suite, cst.If):
                yield from self._compound(suite, block, branch_of=statement)
            else:
                yield from self._suite(suite, statement)

    def _suite(self, suite: cst.BaseSuite, owner: Statement) -> Iterator[Statement]:
        outer = owner.block.indentation
        if isinstance(owner.node, cst.Match):
            # The line of its `case` is no statement, but one level deeper than the `match`.
            outer += _unit_of(self.tree, owner.node)
        if isinstance(suite, cst.SimpleStatementSuite):
            yield from self._simple(suite, Block(outer + owner.block.unit, owner.block.unit, owner, suite))
            return
        assert isinstance(suite, cst.IndentedBlock)
        unit = _unit_of(self.tree, suite)
        yield from self._body(suite.body, Block(outer + unit, unit, owner))

    def _end(self, last: cst.CSTNode) -> int:
        """Where `ast` has a compound statement end whose last suite is `last`: at its last word or semicolon."""
        while True:
            if isinstance(last, cst.If):
                last = list(_suites(last))[-1]
            elif isinstance(last, cst.BaseSuite | cst.SimpleStatementLine):
                last = last.body[-1]
            elif isinstance(last, cst.BaseCompoundStatement):
                last = list(_suites(last))[-1]
            else:
                end = self.tree.span(last)[1]
                closed = isinstance(getattr(last, "semicolon", None), cst.Semicolon)
                return self.tree.text.index(";", end) + 1 if closed else end


def _suites(node: cst.CSTNode) -> Iterator[cst.BaseSuite | cst.If]:
    """The suites of a compound statement in the order of the text; an `elif` stands for its own."""
    if isinstance(node, cst.Match):
        yield from (case.body for case in node.cases)
        return
    yield node.body  # type: ignore[attr-defined]
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for name in ("orelse", "finalbody"):
        follower = getattr(node, name, None)
        if isinstance(follower, cst.If):
            yield follower
        elif follower is not None:
            yield follower.body


def _unit_of(tree: Tree, block: cst.IndentedBlock | cst.Match) -> str:
    return tree.module.default_indent if block.indent is None else block.indent


def _commonest_unit(tree: Tree) -> str:
    units = Counter(_unit_of(tree, node) for node in tree.spans if isinstance(node, cst.IndentedBlock))
    return units.most_common(1)[0][0] if units else _DEFAULT_UNIT
