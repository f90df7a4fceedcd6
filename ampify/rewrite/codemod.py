"""Makes the edits of one Python file: finds what they speak of in its tree, and changes the text there only."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import libcst as cst

from ampify.model.anchor import Anchor
from ampify.model.edit import (
    AddDecorator,
    AddElement,
    AddImport,
    AddParameter,
    Delete,
    Edit,
    EditLines,
    InsertAfter,
    InsertBefore,
    Replace,
    Wrap,
)
from ampify.model.section import Section
from ampify.model.source import SourceFile
from ampify.rewrite.blocks import Statement, statements_of
from ampify.rewrite.composition import Change, Composition, check_header
from ampify.rewrite.decorators import with_decorator
from ampify.rewrite.depth import COMFORTABLE, depth_of, with_room_for
from ampify.rewrite.excerpt import Excerpt, excerpt
from ampify.rewrite.expressions import find_expression
from ampify.rewrite.failure import NestsDeeply, RewriteFailed
from ampify.rewrite.imports import Header
from ampify.rewrite.moves import Moves, Orders
from ampify.rewrite.parameters import with_parameter
from ampify.rewrite.splice import INDENT, LINES, Span, Splice, spliced
from ampify.rewrite.tree import Tree, parse

_OfStatement: TypeAlias = InsertBefore | InsertAfter | Wrap | Delete
_OfExpression: TypeAlias = Replace | AddElement

# The classes of `ast` whose names LibCST does not share.
_STATEMENTS: Final = {
    "AsyncFor": cst.For,
    "AsyncFunctionDef": cst.FunctionDef,
    "AsyncWith": cst.With,
    "Delete": cst.Del,
}


def edited(source: SourceFile, edits: Sequence[Edit], sections: Sequence[Section], *, shallow: bool = False) -> str:
    """The text of `source` with `edits` made, of which only the `sections` concerned are read.

    Raises RewriteFailed, and with `shallow` NestsDeeply for deep code.
    """
    if any(isinstance(edit, EditLines) for edit in edits):
        raise RewriteFailed("a Python file cannot be edited by lines")
    read = excerpt(source.text, sections, edits)
    depth = depth_of(read.plain)
    if shallow and depth > COMFORTABLE:
        raise NestsDeeply(f"its code nests {depth} deep")
    try:
        return with_room_for(depth, lambda: _edited(source, read, list(dict.fromkeys(edits))))
    except RecursionError as error:
        # Python 3.12 has a limit of its own for what passes through C code, which no setting moves.
        raise RewriteFailed(f"its code nests {depth} deep, which is more than LibCST can read here") from error


def _edited(source: SourceFile, read: Excerpt, edits: Sequence[Edit]) -> str:
    tree = parse(read)
    places = _Places.of(tree)
    orders = _orders(places, [edit for edit in edits if isinstance(edit, _OfStatement)])
    moves = Moves(tree, source.newline, places.statements, orders)
    changes = _changes(places, moves, [edit for edit in edits if isinstance(edit, _OfExpression)])
    # Before the moves are asked: the composition may still change a header.
    splices = list(Composition(tree, source.newline, changes).splices())
    splices += moves.splices()
    splices += [
        splice
        for edit in edits
        if isinstance(edit, AddParameter)
        for splice in with_parameter(tree, places.statement(edit.anchor).node, edit.name)
    ]
    splices += [
        with_decorator(tree, places.statement(edit.anchor).node, edit.code, source.newline)
        for edit in edits
        if isinstance(edit, AddDecorator)
    ]
    touched = [statement.span for statement in orders] + [change.found.span for change in changes]
    deleted = [statement.extent for statement, order in orders.items() if order.empties]
    header = Header(tree, source.newline, touched, deleted)
    splices += header.splices([edit for edit in edits if isinstance(edit, AddImport)])
    return spliced(source.text, _without_idle_indents(splices))


def _without_idle_indents(splices: Sequence[Splice]) -> Iterator[Splice]:
    """The splices without those that would indent a line that another one replaces."""
    replaced = [splice for splice in splices if splice.start < splice.end]
    for splice in splices:
        if splice.rank != INDENT or not any(_replaces_at(other, splice.start) for other in replaced):
            yield splice


def _replaces_at(splice: Splice, place: int) -> bool:
    return splice.start < place < splice.end or (splice.rank == LINES and splice.start == place)


@dataclass(frozen=True, slots=True)
class _Places:
    """Finds what anchors address."""

    tree: Tree
    statements: tuple[Statement, ...]
    starts: tuple[int, ...]

    @staticmethod
    def of(tree: Tree) -> _Places:
        statements = tuple(sorted(statements_of(tree), key=lambda statement: statement.extent[0]))
        return _Places(tree, statements, tuple(statement.extent[0] for statement in statements))

    def span(self, anchor: Anchor) -> Span:
        """The offsets that `anchor` means."""
        return (
            self.tree.offset(anchor.line, anchor.column),
            self.tree.offset(anchor.end_line, anchor.end_column),
        )

    def statement(self, anchor: Anchor) -> Statement:
        """The statement at `anchor`; raises RewriteFailed if none is there."""
        span = self.span(anchor)
        kind = _STATEMENTS.get(anchor.kind) or getattr(cst, anchor.kind, None)
        for statement in self._around(span):
            if statement.span == span and type(statement.node) is kind:
                return statement
        raise RewriteFailed(f"there is no statement {anchor.kind} at line {anchor.line}, column {anchor.column}")

    def holding(self, anchor: Anchor) -> Statement:
        """The innermost statement around an expression; raises RewriteFailed if there is none."""
        for statement in self._around(self.span(anchor)):
            return statement
        raise RewriteFailed(f"there is no statement at line {anchor.line}, column {anchor.column}")

    def _around(self, span: Span) -> Iterator[Statement]:
        """The statements that hold `span`, the innermost first."""
        for place in range(bisect.bisect_right(self.starts, span[0]) - 1, -1, -1):
            if span[1] <= self.statements[place].extent[1]:
                yield self.statements[place]


def _orders(places: _Places, edits: Sequence[_OfStatement]) -> dict[Statement, Orders]:
    """What is to happen to each statement that is edited."""
    orders: defaultdict[Statement, Orders] = defaultdict(Orders)
    for edit in edits:
        order = orders[places.statement(edit.anchor)]
        if isinstance(edit, InsertBefore):
            order.before.append(edit.code)
        elif isinstance(edit, InsertAfter):
            order.after.append(edit.code)
        elif isinstance(edit, Delete):
            order.deleted = True
        elif order.header is None:
            check_header(edit.header)
            order.header = edit.header
            _order_followers(places, places.statement(edit.anchor), edit, orders)
        else:
            raise RewriteFailed(f"two edits wrap the statement on line {edit.anchor.line}")
        if order.deleted and order.header is not None:
            raise RewriteFailed(f"one edit wraps and one deletes the statement on line {edit.anchor.line}")
    for statement, order in orders.items():
        _refuse_inside_deleted(places, statement, orders)
        _refuse_amid_wrapped(places, statement, order, orders)
    return dict(orders)


def _order_followers(places: _Places, first: Statement, edit: Wrap, orders: defaultdict[Statement, Orders]) -> None:
    """Has the statements after the first of a wrap move with it."""
    if edit.last is None or edit.last == edit.anchor:
        return
    last = places.statement(edit.last)
    beside = [s for s in places.statements if s.block is first.block and s.branch_of is None]
    start, end = beside.index(first), beside.index(last) if last in beside else -1
    if end <= start:
        raise RewriteFailed(f"lines {edit.anchor.line} and {edit.last.line} do not begin statements of one block")
    for before, follower in pairwise(beside[start : end + 1]):
        if orders[follower].header is not None:
            raise RewriteFailed(f"two edits wrap the statement at offset {follower.span[0]}")
        orders[follower].header = ""
        orders[follower].follows = before


def _refuse_amid_wrapped(
    places: _Places, statement: Statement, order: Orders, orders: Mapping[Statement, Orders]
) -> None:
    """New statements between two that are wrapped together have no place yet; neither has one of them that goes."""
    followed = any(other.follows is statement for other in orders.values())
    if (order.follows is not None and (order.before or order.deleted)) or (followed and order.after):
        line = places.tree.line_number(statement.span[0])
        raise RewriteFailed(f"an edit puts something between statements that move together (line {line})")


def _refuse_inside_deleted(places: _Places, statement: Statement, orders: Mapping[Statement, Orders]) -> None:
    if any(outer in orders and orders[outer].deleted for outer in statement.around()):
        line = places.tree.line_number(statement.span[0])
        raise RewriteFailed(f"two edits overlap: one deletes what holds line {line}")


def _changes(places: _Places, moves: Moves, edits: Sequence[_OfExpression]) -> list[Change]:
    """What is to happen to each expression that is edited."""
    elements: dict[Anchor, list[str]] = defaultdict(list)
    replaced: list[Replace] = []
    for edit in edits:
        if isinstance(edit, AddElement):
            elements[edit.anchor].append(edit.code)
        else:
            replaced.append(edit)
    changes = [_change(places, moves, edit.anchor, code=edit.code) for edit in replaced]
    changes += [_change(places, moves, anchor, elements=tuple(codes)) for anchor, codes in elements.items()]
    return changes


def _change(
    places: _Places, moves: Moves, anchor: Anchor, code: str | None = None, elements: tuple[str, ...] = ()
) -> Change:
    statement = places.holding(anchor)
    found = find_expression(places.tree, statement, anchor, places.span(anchor))
    _refuse_inside_deleted(places, statement, moves.orders)
    orders = moves.orders.get(statement) or Orders()
    return Change(statement, found, orders, code, elements, tuple(moves.shifts_inside(statement)))
