"""Whether an expression has been evaluated on every way to a place, so that what it reads is surely set there."""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import children, expressions, path_to
from ampify.model import facts as f


def evaluated(text: str, facts: f.FileFacts, body: tuple[f.Stmt, ...], at: f.Span) -> bool:
    """Whether `text` is read by a statement that comes before a place on every way, or by the one at the place."""
    for block, index in path_to(body, at):
        for statement in block[: index + 1]:
            for whole in () if statement.kind == "Delete" else _reads(statement):
                if any(facts.text(part.span) == text for part in unconditional(whole)):
                    return True
    return False


def _reads(statement: f.Stmt) -> tuple[f.Expr, ...]:
    """The expressions that a statement reads whenever it runs; of a target only what it is a part of."""
    if isinstance(statement, f.For):
        return (statement.iterable,)
    if isinstance(statement, f.Assign):
        return (statement.value, *(part for target in statement.targets for part in children(target)))
    return expressions(statement)


def unconditional(expr: f.Expr) -> Iterator[f.Expr]:
    """The parts of an expression that are evaluated whenever it is."""
    yield expr
    parts = children(expr)
    if isinstance(expr, f.Comprehension) or expr.kind in ("BoolOp", "IfExp"):
        parts = parts[:1]
    elif expr.kind == "Compare":
        parts = parts[:2]
    for part in parts:
        yield from unconditional(part)
