"""Reads calls of apex's `amp.master_params`: whose parameters they give, and where these go out of sight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ampify import catalog
from ampify.index.entities import Entities
from ampify.index.flow import Flow
from ampify.index.syntax import expressions, first_argument, in_order, inside, last_name, statements
from ampify.index.values import Frame, FunctionValue, Value
from ampify.model import facts as f

_NAME = "master_params"
# Calls that only hand on what they are given, all of it or a part.
_HANDING = frozenset({"enumerate", "filter", "iter", "list", "next", "reversed", "tuple", "zip"})


@dataclass(frozen=True, slots=True)
class MastersCall:
    """A call of `amp.master_params` in a frame, with the optimizers it is given. `once` tells that what it gives may be
    kept, and can be gone over once only; `astray` is the place where its parameters go to what cannot be followed, None
    if they do not."""

    call: f.Call
    frame: Frame
    optimizers: frozenset[Value]
    once: bool
    astray: f.Expr | None


class MastersCalls:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow, entities: Entities) -> None:
        self.flow = flow
        self.entities = entities

    def all(self) -> Iterator[MastersCall]:
        """All such calls, by file, in the order of the text."""
        for (path, scope), frames in sorted(self.flow.frames_of.items(), key=lambda item: item[0]):
            if _NAME not in self.flow.files[path].methods:
                continue
            for statement, node, parents in _uses(self.flow.files[path].scopes[scope]):
                if isinstance(node, f.Call) and last_name(node.func) == _NAME:
                    yield self.read(node, parents, statement, frames)

    def read(self, node: f.Call, parents: tuple[f.Expr, ...], statement: f.Stmt, frames: list[Frame]) -> MastersCall:
        found = frozenset(o for frame in frames for o in self.given(node, frame))
        astray = self.astray(node, parents, statement, frames[0], frozenset())
        return MastersCall(node, frames[0], found, not _gone_over(node, parents, statement), astray)

    def given(self, call: f.Call, frame: Frame) -> tuple[Value, ...]:
        """The optimizers that a call is given; none if it is given anything else."""
        argument = first_argument(call)
        alone = len(call.args) + len(call.keywords) == 1
        if argument is None or not alone or isinstance(argument, f.Starred):
            return ()
        return self.entities.optimizers(self.flow.evaluate(argument, frame))

    def astray(
        self,
        node: f.Expr,
        parents: tuple[f.Expr, ...],
        statement: f.Stmt,
        frame: Frame,
        seen: frozenset[tuple[str, int, str]],
    ) -> f.Expr | None:
        """Where parameters that `node` gives all of are handed to what cannot be followed."""
        if not parents:
            if _gone_over(node, parents, statement):
                return None
            if isinstance(statement, f.Assign) and statement.value is node:
                return self.by_names(node, statement, frame, seen)
            return None if isinstance(statement, f.Evaluate) else node
        around = parents[-1]
        if isinstance(around, f.Comprehension):
            return None if _goes_over(around, node) else node
        if isinstance(around, f.Operation) and around.kind == "Compare":
            return None
        if not isinstance(around, f.Call):
            return node
        name = last_name(around.func)
        if name in catalog.CLIPS:
            return None
        if isinstance(around.func, f.Name) and name in _HANDING:
            # What `next` gives is a single one, and what is read of it is seen.
            return None if name == "next" else self.astray(around, parents[:-1], statement, frame, seen)
        return self.by_parameters(node, around, frame, seen)

    def by_names(
        self, node: f.Expr, statement: f.Assign, frame: Frame, seen: frozenset[tuple[str, int, str]]
    ) -> f.Expr | None:
        """The same for a variable, wherever its function reads it."""
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, f.Name):
            return node
        return self.by_name(target.id.partition("@")[0], node, frame, seen)

    def by_name(self, name: str, node: f.Expr, frame: Frame, seen: frozenset[tuple[str, int, str]]) -> f.Expr | None:
        key = (frame.path, frame.scope, name)
        if key in seen:
            return None
        facts = self.flow.files[frame.path]
        scope = facts.scopes[frame.scope]
        inner = (s for s in facts.scopes if s is not scope and inside(s.span, scope.span))
        if name in scope.outer or any(_reads(s, name) for s in inner):
            return node
        for statement, use, parents in _uses(scope):
            if isinstance(use, f.Name) and use.id.partition("@")[0] == name and not _is_target(use, statement):
                astray = self.astray(use, parents, statement, frame, seen | {key})
                if astray is not None:
                    return astray
        return None

    def by_parameters(
        self, node: f.Expr, call: f.Call, frame: Frame, seen: frozenset[tuple[str, int, str]]
    ) -> f.Expr | None:
        """The same for functions of the project that are given them."""
        callees = self.flow.calls.callee(call, frame)
        if not callees or not all(isinstance(callee, FunctionValue) for callee in callees):
            return node
        for callee in callees:
            assert isinstance(callee, FunctionValue)
            scope = self.flow.files[callee.path].scopes[callee.scope]
            name = _parameter(scope, call, node, bound=callee.receiver is not None)
            inner = next(iter(self.flow.frames_of.get((callee.path, callee.scope), ())), None)
            if name is None or inner is None:
                return node
            astray = self.by_name(name, node, inner, seen)
            if astray is not None:
                return astray
        return None


def _gone_over(node: f.Expr, parents: tuple[f.Expr, ...], statement: f.Stmt) -> bool:
    """Whether a loop or comprehension, or a clip, takes all that an expression gives, at once."""
    if not parents:
        return isinstance(statement, f.For) and statement.iterable is node
    around = parents[-1]
    clipped = isinstance(around, f.Call) and last_name(around.func) in catalog.CLIPS
    return clipped or (isinstance(around, f.Comprehension) and _goes_over(around, node))


def _goes_over(comprehension: f.Comprehension, node: f.Expr) -> bool:
    return any(iterable is node for _, iterable, _ in comprehension.generators)


def _uses(scope: f.Scope) -> Iterator[tuple[f.Stmt, f.Expr, tuple[f.Expr, ...]]]:
    """All expressions of a scope, each with its statement and what it is part of."""
    for statement in statements(scope.body):
        for expression in expressions(statement):
            for node, parents in in_order(expression):
                yield statement, node, parents


def _reads(scope: f.Scope, name: str) -> bool:
    if name in scope.bound - scope.outer:
        return False
    return any(isinstance(node, f.Name) and node.id.partition("@")[0] == name for _, node, _ in _uses(scope))


def _is_target(node: f.Name, statement: f.Stmt) -> bool:
    return isinstance(statement, f.Assign) and any(target is node for target in statement.targets)


def _parameter(scope: f.Scope, call: f.Call, node: f.Expr, *, bound: bool) -> str | None:
    """The name under which a function gets an argument; None if it is packed with others."""
    named = next((name for name, value in call.keywords if value is node), None)
    names = [parameter.name for parameter in scope.parameters]
    if named is not None:
        return named if named in names else None
    place = next((i for i, value in enumerate(call.args) if value is node), None)
    if place is None or any(isinstance(value, f.Starred) for value in call.args[:place]):
        return None
    place += bound
    return names[place] if place < len(names) and scope.parameters[place].kind == "positional" else None
