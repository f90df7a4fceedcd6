"""Makes edits of expressions work together when one lies inside another.

An expression that is replaced takes what it holds along. An edit inside it is made where that part has gone: in the
new code, or in the header its statement moves under, if it stands there letter for letter and as often as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from ampify.rewrite.blocks import Statement
from ampify.rewrite.elements import with_elements
from ampify.rewrite.expressions import Expression, is_atom, occurrences, replacement
from ampify.rewrite.failure import RewriteFailed
from ampify.rewrite.layout import Shift
from ampify.rewrite.moves import Orders
from ampify.rewrite.splice import Splice, spliced
from ampify.rewrite.tree import Tree
from ampify.source import split_lines


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What is to happen to one expression: it becomes `code`, or it gets `elements`. `orders` are its statement's."""

    statement: Statement
    found: Expression
    orders: Orders
    code: str | None = None
    elements: tuple[str, ...] = ()
    shifts: tuple[Shift, ...] = ()

    def holds(self, other: Change) -> bool:
        """Whether `other` lies inside the expression that this one replaces."""
        (start, end), (inner_start, inner_end) = self.found.span, other.found.span
        if self is other or self.code is None or not (start <= inner_start and inner_end <= end):
            return False
        return self.found.span != other.found.span or self._goes_around(other)

    def _goes_around(self, other: Change) -> bool:
        """Of two changes of one expression, whether `other` changes what this one moves away."""
        if other.code is None:
            return True
        name = _bound_by(self.orders.header) if self.orders.header else None
        return self.code == name != other.code


@dataclass(slots=True)
class Composition:
    """The changes of expressions in one file, made to work together. Headers that change are changed in the orders."""

    tree: Tree
    newline: str
    changes: Sequence[Change]
    _moved: dict[int, list[Splice]] = field(default_factory=dict)

    def splices(self) -> Iterator[Splice]:
        """The changes of the text; raises RewriteFailed if edits contradict each other."""
        for change in self.changes:
            if self._holder(change) is None:
                yield from self._made(change)
        for change in self.changes:
            moved = self._moved.pop(id(change.orders), [])
            if change.orders.header:
                change.orders.header = spliced(change.orders.header, moved)

    def _holder(self, change: Change) -> Change | None:
        """The innermost replacement that `change` lies in."""
        holders = [other for other in self.changes if other.holds(change)]
        return min(holders, key=lambda other: other.found.span[1] - other.found.span[0], default=None)

    def _made(self, change: Change) -> Iterator[Splice]:
        if change.code is None:
            elements = [self._with_line_ends(code) for code in change.elements]
            yield from with_elements(self.tree, change.found, elements, self.newline, change.shifts)
            return
        (start, end), text = replacement(self.tree, change.found, self._code(change))
        yield Splice(start, end, text)

    def _code(self, change: Change) -> str:
        """The new code of a replacement, with the changes made that lie inside the old one."""
        assert change.code is not None
        code = self._with_line_ends(change.code)
        inner = [other for other in self.changes if self._holder(other) is change]
        return spliced(code, [splice for other in inner for splice in self._carried(change, code, other)])

    def _with_line_ends(self, code: str) -> str:
        return self.newline.join(line.rstrip("\r\n") for line in split_lines(code))

    def _carried(self, outer: Change, code: str, inner: Change) -> list[Splice]:
        """The change `inner` as one of `code`; if it concerns the statement's header, it is noted there instead."""
        start, end = outer.found.span
        part = self.tree.text[slice(*inner.found.span)]
        before = occurrences(self.tree.text[start:end], part)
        now = occurrences(code, part)
        which = before.index((inner.found.span[0] - start, inner.found.span[1] - start))
        if len(now) == len(before):
            return [Splice(*now[which], self._new_text(inner))]
        header = outer.orders.header
        if not now and header:
            moved = occurrences(header, part, "", " pass\n")
            if len(moved) == len(before):
                noted = self._moved.setdefault(id(outer.orders), [])
                noted.append(Splice(*moved[which], self._new_text(inner)))
                return []
        line = self.tree.line_number(inner.found.span[0])
        raise RewriteFailed(f"two edits overlap on line {line}: {part!r} is edited, and {code!r} takes its place")

    def _new_text(self, change: Change) -> str:
        """The new text of an expression that has moved to another place."""
        if change.code is not None:
            code = self._code(change)
            return code if is_atom(code) else f"({code})"
        start, end = change.found.span
        return spliced(self.tree.text[start:end], self._made(change), start)


def check_header(header: str) -> None:
    """Raises RewriteFailed unless a block can follow `header`."""
    _statement(header)


def _statement(header: str) -> cst.BaseStatement:
    try:
        statement = cst.parse_statement(f"{header} pass\n")
    except cst.ParserSyntaxError as error:
        raise RewriteFailed(f"new code {header!r} is no header of a block") from error
    if not isinstance(statement, cst.BaseCompoundStatement):
        raise RewriteFailed(f"new code {header!r} is no header of a block")
    return statement


def _bound_by(header: str) -> str | None:
    """The name that a `with` header binds last, if any."""
    statement = _statement(header)
    item = statement.items[-1] if isinstance(statement, cst.With) else None
    target = item.asname.name if item is not None and item.asname is not None else None
    return target.value if isinstance(target, cst.Name) else None
