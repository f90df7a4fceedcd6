"""Losses of probabilities, which autocast refuses: which of them training computes, and how each stays out of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.syntax import children, expressions, in_order, inside
from ampify.index.trace import Trace
from ampify.index.values import Derived, Frame, Partial
from ampify.model import facts as f
from ampify.model.anchor import Anchor


class Probabilities:
    """Answers from a trace."""

    def __init__(self, flow: Flow, trace: Trace) -> None:
        self.flow = flow
        self.losses = [event for event in trace.events if event.kind == "cross_entropy"]

    def within(self, places: Iterable[tuple[f.Stmt, Frame]]) -> list[Event]:
        """The losses that some statements compute, with all that they call; each place once, in the order of the
        text."""
        found: dict[Anchor, Event] = {}
        for statement, frame in places:
            for event in self.losses:
                if any(frame is other and inside(span, statement.span) for other, span in event.stack):
                    found.setdefault(event.anchor, event)
        return [found[anchor] for anchor in sorted(found)]

    def is_own(self, statement: f.Stmt, frame: Frame) -> bool:
        """Whether a simple statement itself computes such a loss, and nothing else that may be cast."""
        return any(
            (event.frame.path, event.frame.scope) == (frame.path, frame.scope)
            and event.statement is statement
            and self.alone(event)
            for event in self.losses
        )

    def first(self, event: Event) -> f.Expr | None:
        """The first argument of a loss if that must be the probabilities: what was filled in before comes earlier."""
        if not isinstance(event.node, f.Call) or not event.node.args or isinstance(event.node.args[0], f.Starred):
            return None
        callees = [c for c in self.flow.calls.callee(event.node, event.frame) if isinstance(c, Partial)]
        kept = [self.flow.calls.kept(callee) for callee in callees]
        filled = any(positional or "input" in keywords for positional, keywords in kept)
        return None if filled else event.node.args[0]

    def alone(self, event: Event) -> bool:
        """Whether the statement of a loss does nothing else with what a model computed, and is a simple one; a lambda
        has none."""
        if self.flow.scope(event.frame).name == "<lambda>":
            return False
        if not isinstance(event.statement, f.Assign | f.Evaluate | f.Return):
            return False
        value = event.statement.value
        return (
            value is not None
            and not any(
                isinstance(v, Derived)
                for part in _beside(value, event.node)
                for v in self.flow.evaluate(part, event.frame)
            )
            and not self.runs_inside(event)
        )

    def runs_inside(self, event: Event) -> bool:
        """Whether what the loss is given is computed in its own call."""
        parts = (part for argument in expressions(event.statement) for part, _ in in_order(argument))
        calls = (part for part in parts if isinstance(part, f.Call) and part is not event.node)
        given = (part for part in calls if inside(part.span, event.node.span))
        return any(not isinstance(part.func, f.Attribute) and self.is_derived(part, event.frame) for part in given)

    def is_derived(self, expr: f.Expr, frame: Frame) -> bool:
        """Whether a model computed what an expression gives."""
        return any(isinstance(v, Derived) for v in self.flow.evaluate(expr, frame))


def _beside(expr: f.Expr, node: f.Expr) -> Iterator[f.Expr]:
    """The parts of an expression that are neither a node, nor in it, nor computed from it."""
    if expr is node:
        return
    if not inside(node.span, expr.span):
        yield expr
        return
    for part in children(expr):
        yield from _beside(part, node)
