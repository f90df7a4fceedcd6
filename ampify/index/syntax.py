"""Walks over the expressions and statements of facts, and what a single expression says by itself."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

from ampify.model import facts as f


def _of_comprehension(expr: f.Comprehension) -> tuple[f.Expr, ...]:
    found: list[f.Expr] = []
    for _, iterable, conditions in expr.generators:
        found += [iterable, *conditions]
    return (*found, expr.element)


# A table, for all stages ask: what stands in it not at all has no parts.
_CHILDREN: Final[dict[type[f.Expr], Callable[[Any], tuple[f.Expr, ...]]]] = {
    f.Attribute: lambda expr: (expr.value,),
    f.Starred: lambda expr: (expr.value,),
    f.Call: lambda expr: (expr.func, *expr.args, *[value for _, value in expr.keywords]),
    f.Elements: lambda expr: expr.items,
    f.Mapping: lambda expr: tuple([key for key in expr.keys if key is not None]) + expr.values,
    f.Subscript: lambda expr: (expr.value, expr.index),
    f.Comprehension: _of_comprehension,
    f.Walrus: lambda expr: (expr.value,),
    f.Operation: lambda expr: expr.operands,
}


def children(expr: f.Expr) -> tuple[f.Expr, ...]:
    """Direct parts of an expression, in order of evaluation; lambdas are shut."""
    find = _CHILDREN.get(type(expr))
    return find(expr) if find is not None else ()


def in_order(expr: f.Expr, parents: tuple[f.Expr, ...] = ()) -> Iterator[tuple[f.Expr, tuple[f.Expr, ...]]]:
    """An expression's parts in order of evaluation, each with what it is part of, innermost last."""
    # Without recursion: that would hand each part through all generators above it.
    waiting = [(expr, parents, False)]
    while waiting:
        node, outer, done = waiting.pop()
        find = None if done else _CHILDREN.get(type(node))
        if find is None:
            yield node, outer
            continue
        waiting.append((node, outer, True))
        inner = (*outer, node)
        waiting.extend([(part, inner, False) for part in reversed(find(node))])


def is_called(node: f.Expr, parents: tuple[f.Expr, ...]) -> bool:
    """Whether an expression is what a call calls; `parents` are what it is part of, innermost last."""
    call = parents[-1] if parents else None
    return isinstance(call, f.Call) and call.func is node


def expressions(statement: f.Stmt) -> tuple[f.Expr, ...]:
    """The expressions a statement evaluates itself, in order; its blocks apart."""
    match statement:
        case f.Assign():
            return (statement.value, *statement.targets)
        case f.Evaluate():
            return (statement.value,)
        case f.Return():
            return (statement.value,) if statement.value is not None else ()
        case f.Branch() | f.While():
            return (statement.test,)
        case f.For():
            return (statement.iterable, statement.target)
        case f.With():
            return tuple(context for context, _ in statement.items)
        case f.Define():
            return statement.decorators
        case f.Jump() | f.Simple():
            return statement.operands
    return ()


def blocks(statement: f.Stmt) -> tuple[tuple[f.Stmt, ...], ...]:
    """The blocks of a compound statement, in the order of the text; bodies of definitions apart."""
    match statement:
        case f.Branch():
            return statement.arms
        case f.For() | f.While():
            return (statement.body, statement.orelse)
        case f.With():
            return (statement.body,)
        case f.Try():
            return (statement.body, *statement.handlers, statement.orelse, statement.final)
    return ()


def statements(body: Iterable[f.Stmt]) -> Iterator[f.Stmt]:
    """All statements of a scope, in the order of the text."""
    for statement in body:
        yield statement
        for block in blocks(statement):
            yield from statements(block)


def assigned(statement: f.Stmt) -> Iterator[f.Name]:
    """The names that a statement itself assigns to: those of its blocks, of imports and of definitions apart."""
    match statement:
        case f.Assign():
            yield from (name for target in statement.targets for name in named(target))
        case f.For():
            yield from named(statement.target)
        case f.With():
            yield from (name for _, target in statement.items if target is not None for name in named(target))


def named(target: f.Expr) -> Iterator[f.Name]:
    """The names in the target of an assignment that it binds."""
    match target:
        case f.Name():
            yield target
        case f.Elements():
            for item in target.items:
                yield from named(item)
        case f.Starred():
            yield from named(target.value)


def nodes(body: Iterable[f.Stmt]) -> Iterator[tuple[f.Expr, tuple[f.Expr, ...]]]:
    """All expressions of a body in the order of evaluation, each with what it is part of, innermost last."""
    for statement in statements(body):
        for expression in expressions(statement):
            yield from in_order(expression)


def parts(body: Iterable[f.Stmt]) -> Iterator[f.Expr]:
    """All expressions of a body, in no order that means anything: faster than `nodes`."""
    for statement in statements(body):
        waiting = list(expressions(statement))
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(children(node))


def calls(body: Iterable[f.Stmt]) -> Iterator[f.Call]:
    """All calls of a body in the order of evaluation."""
    return (node for node, _ in nodes(body) if isinstance(node, f.Call))


def subscript_key(index: f.Expr | None) -> str:
    """The field that `[index]` reads: by its value where that is a constant, else any."""
    if isinstance(index, f.Constant) and isinstance(index.value, str | int):
        return f"[{index.value!r}]"
    return "[*]"


def dotted_name(expr: f.Expr) -> str:
    """A name with its attributes; "" for any other expression."""
    if isinstance(expr, f.Attribute):
        base = dotted_name(expr.value)
        return f"{base}.{expr.attr}" if base else ""
    return expr.id if isinstance(expr, f.Name) else ""


def spelled(text: str) -> f.Expr:
    """The expression of a dotted name, at no place of its own."""
    first, *rest = text.split(".")
    expr: f.Expr = f.Name((1, 0, 1, 0), first)
    for part in rest:
        expr = f.Attribute((1, 0, 1, 0), expr, part)
    return expr


def path_to(body: tuple[f.Stmt, ...], span: f.Span) -> tuple[tuple[tuple[f.Stmt, ...], int], ...]:
    """Blocks and positions, outermost first, of the statements of `body` that contain a span."""
    index = bisect_right(body, (*span[:2], sys.maxsize, 0), key=attrgetter("span")) - 1
    if index < 0 or not inside(span, body[index].span):
        return ()
    for block in blocks(body[index]):
        deeper = path_to(block, span)
        if deeper:
            return ((body, index), *deeper)
    return ((body, index),)


def inside(inner: f.Span, outer: f.Span) -> bool:
    """Whether one range lies within another."""
    return outer[:2] <= inner[:2] and inner[2:] <= outer[2:]


def last_name(expr: f.Expr) -> str:
    """The last identifier of a dotted expression, "" if it is none."""
    match expr:
        case f.Name():
            return expr.id.partition("@")[0]
        case f.Attribute():
            return expr.attr
        case f.Subscript():
            return last_name(expr.value)
        case f.Call():
            return last_name(expr.func)
    return ""


# What the functions of torch and amp that are looked for call their first argument.
_FIRST = frozenset("module model models obj optimizer outputs parameters state_dict tensors".split())


def first_argument(call: f.Call) -> f.Expr | None:
    """The first argument of a function of torch or amp, by position or by name."""
    if call.args:
        return call.args[0]
    return next((value for name, value in call.keywords if name in _FIRST), None)


def is_none(expr: f.Expr) -> bool:
    """Whether an expression is the constant None."""
    return isinstance(expr, f.Constant) and expr.value is None


def is_false(expr: f.Expr) -> bool:
    """Whether an expression is the constant False."""
    return isinstance(expr, f.Constant) and expr.value is False


def gathered(expr: f.Expr) -> Iterator[f.Expr]:
    """What an expression puts into the list, tuple or dict that it makes; else itself."""
    match expr:
        case f.Elements():
            for item in expr.items:
                yield from gathered(item)
        case f.Comprehension():
            yield from gathered(expr.element)
        case _:
            yield expr
