"""Conditions that hold for a whole run, so that what one decides at one place can be asked again at another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.syntax import in_order, is_none, path_to, statements
from ampify.index.values import Frame
from ampify.model import facts as f


@dataclass(frozen=True, slots=True)
class Guard:
    """A test of one variable of a module that is settled once the module is imported."""

    path: str
    name: str
    text: str


class Guards:
    """Reads guards off the places of events."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def of(self, event: Event) -> Guard | None:
        """The one condition that decides whether an event happens; None if there is none, several, or one that may
        have another outcome later."""
        found = [found for frame, span in event.stack for found in self.tests(frame, span)]
        if len(found) != 1:
            return None
        frame, test, holds = found[0]
        name = _asked(test)
        if not holds or name is None or not self.settled(frame, name):
            return None
        return Guard(frame.path, name, self.flow.files[frame.path].text(test.span))

    def holds(self, guard: Guard, event: Event) -> bool:
        """Whether a guard can be asked where an event is, and means the same there."""
        frame = event.frame
        home = self.flow.variables.home(frame, guard.name)
        return frame.path == guard.path and home is self.flow.module_frame(guard.path)

    def tests(self, frame: Frame, span: f.Span) -> Iterator[tuple[Frame, f.Expr, bool]]:
        """The tests around a statement in a frame's function, and whether it runs where they hold; not the question
        whether the file is run as a script."""
        facts = self.flow.files[frame.path]
        for (block, index), (inner, _) in pairwise(path_to(self.flow.scope(frame).body, span)):
            statement = block[index]
            if isinstance(statement, f.Branch) and "__name__" not in facts.text(statement.test.span):
                yield frame, statement.test, statement.kind != "Match" and statement.arms[0] is inner

    def settled(self, frame: Frame, name: str) -> bool:
        """Whether a name is one of the module's, bound by nothing but imports and constants while it is imported."""
        facts = self.flow.files[frame.path]
        if self.flow.variables.home(frame, name) is not self.flow.module_frame(frame.path):
            return False
        if any(name in scope.globally for scope in facts.scopes):
            return False
        bindings = [_settles(statement, name) for statement in statements(facts.scopes[0].body)]
        return True in bindings and False not in bindings


def _asked(test: f.Expr) -> str | None:
    """The variable that `x`, `not x`, `x is None` or `x is not None` asks for."""
    match test:
        case f.Name():
            return test.id
        case f.Operation(operator="Not", operands=(f.Name() as asked,)):
            return asked.id
        case f.Operation(operator="Is" | "IsNot", operands=(f.Name() as asked, other)) if is_none(other):
            return asked.id
    return None


def _settles(statement: f.Stmt, name: str) -> bool | None:
    """Whether a statement binds a name to an import or a constant; None if it does not bind it."""
    match statement:
        case f.Import():
            return True if any(imported.bound == name for imported in statement.names) else None
        case f.Assign():
            bound = any(_binds(target, name) for target in statement.targets)
            return isinstance(statement.value, f.Constant) and statement.kind != "AugAssign" if bound else None
        case f.For():
            return False if _binds(statement.target, name) else None
        case f.With():
            return False if any(target is not None and _binds(target, name) for _, target in statement.items) else None
    return None


def _binds(target: f.Expr, name: str) -> bool:
    return any(isinstance(node, f.Name) and node.id == name for node, _ in in_order(target))
