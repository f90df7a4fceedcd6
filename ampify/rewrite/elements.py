"""Adds a last element to a dict, list, set, tuple or call, laid out as its neighbours are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from ampify.rewrite.expressions import Expression
from ampify.rewrite.failure import RewriteFailed
from ampify.rewrite.layout import Shift, shifted
from ampify.rewrite.splice import Splice
from ampify.rewrite.tree import Tree


@dataclass(frozen=True, slots=True)
class _Last:
    """The element that is the last one now: its range, and where its comma ends, if it has one."""

    start: int
    end: int
    comma_end: int | None


def with_elements(
    tree: Tree, display: Expression, codes: Sequence[str], newline: str, shifts: Sequence[Shift]
) -> Iterator[Splice]:
    """The changes that make `codes` the last elements of `display`, whose lines are moved by `shifts`."""
    for code in codes:
        _expect_element(display.node, code)
    members = _members(display.node)
    last = _last(tree, members[-1]) if members else None
    if last is None:
        yield from _into_empty(tree, display, codes)
        return
    yield from _parenthesized_generator(tree, members)
    # Without brackets a line break would end the statement.
    bare = isinstance(display.node, cst.Tuple) and not display.node.lpar
    indentation = None if bare else _own_line(tree, last)
    if indentation is None:
        yield from _on_the_line(display.node, members, last, codes)
    else:
        yield from _on_lines(tree, display, last, codes, newline + shifted(indentation, shifts))


def _members(node: cst.BaseExpression) -> Sequence[cst.CSTNode]:
    if isinstance(node, cst.Call):
        return node.args
    if isinstance(node, cst.Dict | cst.List | cst.Set | cst.Tuple):
        return node.elements
    raise RewriteFailed(f"nothing can be added to a {type(node).__name__}")


def _expect_element(node: cst.BaseExpression, code: str) -> None:
    """Raises RewriteFailed unless `code` can be a single element of `node`."""
    pattern = {cst.Dict: "{%s}", cst.Call: "f(%s)"}.get(type(node), "[%s]")
    try:
        parsed = cst.parse_expression(pattern % code)
        whole = isinstance(parsed, cst.Dict | cst.List) or (isinstance(parsed, cst.Call) and _is_name(parsed.func))
        right = whole and len(_members(parsed)) == 1
    except cst.ParserSyntaxError:
        right = False
    if not right or code != code.strip().rstrip(","):
        raise RewriteFailed(f"new code {code!r} is no element of a {type(node).__name__}")


def _is_name(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name)


def _last(tree: Tree, member: cst.CSTNode) -> _Last:
    start, end = tree.span(member)
    comma = getattr(member, "comma", None)
    return _Last(start, end, tree.span(comma)[1] if isinstance(comma, cst.Comma) else None)


def _own_line(tree: Tree, last: _Last) -> str | None:
    """The indentation of the last element, if its line begins with it."""
    before = tree.text[tree.line_start(last.start) : last.start]
    return before if not before.strip(" \t") else None


def _into_empty(tree: Tree, display: Expression, codes: Sequence[str]) -> Iterator[Splice]:
    node = display.node
    # Of a call the display's range begins with the name of what is called.
    inside = tree.span(node.whitespace_before_args)[0] if isinstance(node, cst.Call) else display.span[0] + 1
    comma = "," if isinstance(node, cst.Tuple) and len(codes) == 1 else ""
    yield Splice(inside, inside, ", ".join(codes) + comma)


def _parenthesized_generator(tree: Tree, members: Sequence[cst.CSTNode]) -> Iterator[Splice]:
    """A generator may go without parentheses of its own only while it is the sole argument."""
    only = members[0]
    if isinstance(only, cst.Arg) and isinstance(only.value, cst.GeneratorExp) and not only.value.lpar:
        start, end = tree.span(only)
        yield Splice(start, start, "(")
        yield Splice(end, end, ")")


def _on_the_line(
    node: cst.BaseExpression, members: Sequence[cst.CSTNode], last: _Last, codes: Sequence[str]
) -> Iterator[Splice]:
    added = ", ".join(codes)
    if last.comma_end is None:
        yield Splice(last.end, last.end, f", {added}")
        return
    # A tuple of one has its comma by necessity, not by habit.
    comma = "" if isinstance(node, cst.Tuple) and len(members) == 1 else ","
    yield Splice(last.comma_end, last.comma_end, f" {added}{comma}")


def _on_lines(tree: Tree, display: Expression, last: _Last, codes: Sequence[str], line_begin: str) -> Iterator[Splice]:
    has_comma = last.comma_end is not None
    end = last.end if last.comma_end is None else last.comma_end
    added = ",".join(line_begin + code for code in codes) + ("," if has_comma else "")
    # A comment on the line of the last element belongs to that, so the new line follows it.
    place = _end_of_content(tree, end)
    if place >= display.span[1]:
        place = end
    if not has_comma:
        yield Splice(last.end, last.end, ",")
    yield Splice(place, place, added)


def _end_of_content(tree: Tree, place: int) -> int:
    """The end of the line of `place`, before its line end."""
    line = tree.text[tree.line_start(place) : tree.line_end(place)]
    return tree.line_start(place) + len(line.rstrip("\r\n"))
