"""Where the methods of a function with a backward of its own are defined, however its class got them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ampify.index.flow import Flow
from ampify.index.syntax import inside, last_name, nodes, statements
from ampify.index.values import ClassValue, Frame, FunctionValue
from ampify.model import facts as f
from ampify.model.anchor import Anchor

LAMBDA = "its {} is a lambda"
UNKNOWN = "what its {} is, is not known"
ELSEWHERE = "its {} is used elsewhere, too"
LATER = "its {} is set after the class was made"


@dataclass(frozen=True, slots=True)
class Definition:
    """What a class has under the name of a method: the scope of a function in a file, if it is known, and the statement
    that defines it, which can be decorated unless `obstacle` says why not. `decorators` are all that it is called
    through, by their last names."""

    path: str
    anchor: Anchor
    scope: f.Scope | None
    decorators: frozenset[str]
    obstacle: str = ""


class AutogradMethods:
    """Finds the methods of classes in a solved flow."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def of(self, cls: ClassValue, *names: str) -> tuple[Definition, ...]:
        """All that may be the method of a class, by any of its names: several if branches define it."""
        for candidate in self.flow.classes.order(cls):
            if isinstance(candidate, ClassValue):
                found = tuple(self._own(candidate, names))
                if found:
                    return found
        return ()

    def _own(self, cls: ClassValue, names: tuple[str, ...]) -> Iterator[Definition]:
        facts, body = self.flow.files[cls.path], self.flow.classes.scope(cls).body
        for statement in statements(body):
            if isinstance(statement, f.Define):
                scope = facts.scopes[statement.scope]
                if scope.name in names:
                    yield Definition(cls.path, facts.anchor(statement), scope, _names(statement.decorators))
            elif isinstance(statement, f.Assign):
                bound = [t.id for t in statement.targets if isinstance(t, f.Name) and t.id in names]
                for name in bound[:1]:
                    yield self._assigned(statement, name, self.flow.classes.frame(cls))
        yield from self._later(cls, names)

    def _later(self, cls: ClassValue, names: tuple[str, ...]) -> Iterator[Definition]:
        frame = self.flow.classes.frame(cls)
        for name in names:
            for writer, span in self.flow.store.writes(frame, name):
                if writer is not frame:
                    anchor = Anchor(writer.path, *span, "Attribute")
                    yield Definition(writer.path, anchor, None, frozenset(), LATER.format(name))

    def _assigned(self, statement: f.Assign, name: str, frame: Frame) -> Definition:
        """What `name = staticmethod(...)` in the body of a class makes its method."""
        facts, value = self.flow.files[frame.path], statement.value
        through = []
        while isinstance(value, f.Call) and len(value.args) == 1:
            through.append(value.func)
            value = value.args[0]
        decorators = _names(tuple(through))
        stated = facts.anchor(statement)
        if isinstance(value, f.Lambda):
            scope = facts.scopes[value.scope]
            return Definition(frame.path, stated, scope, decorators, LAMBDA.format(name))
        known = [v for v in self.flow.evaluate(value, frame) if isinstance(v, FunctionValue)]
        if len(known) != 1:
            return Definition(frame.path, stated, None, decorators, UNKNOWN.format(name))
        return self._of_function(known[0], name, stated, decorators)

    def _of_function(
        self, function: FunctionValue, name: str, stated: Anchor, decorators: frozenset[str]
    ) -> Definition:
        facts = self.flow.files[function.path]
        scope = facts.scopes[function.scope]
        defined = (s for holder in facts.scopes for s in statements(holder.body) if isinstance(s, f.Define))
        statement = next((s for s in defined if s.scope == scope.index), None)
        if statement is None:
            return Definition(function.path, stated, scope, decorators, LAMBDA.format(name))
        obstacle = "" if self._uses(function.path, scope.name) == 1 else ELSEWHERE.format(name)
        decorators |= _names(statement.decorators)
        return Definition(function.path, facts.anchor(statement), scope, decorators, obstacle)

    def _uses(self, path: str, name: str) -> int:
        """How often a file's function is named, in other files as well."""
        others = (facts for other, facts in self.flow.files.items() if other != path)
        abroad = sum(name in facts.names or name in facts.methods or name in facts.read for facts in others)
        own = (n for scope in self.flow.files[path].scopes for n, _ in nodes(scope.body))
        return abroad + sum(isinstance(n, f.Name | f.Attribute) and last_name(n) == name for n in own)


def frames_in(flow: Flow, path: str, scope: int | None) -> tuple[Frame, ...]:
    """The frames that a scope ran in; if the flow has never entered it, one in which its parameters are unknown."""
    known = flow.frames_of.get((path, scope or 0), ())
    if known or not scope:
        return tuple(known) or (flow.module_frame(path),)
    around = frames_in(flow, path, flow.files[path].scopes[scope].parent)
    return tuple(flow.make(Frame, path, scope, (), outer) for outer in around)


def scopes_within(facts: f.FileFacts, span: f.Span) -> Iterator[f.Scope]:
    """The functions that stand in a range of a file."""
    return (s for s in facts.scopes[1:] if s.kind != "class" and inside(s.span, span))


def _names(decorators: tuple[f.Expr, ...]) -> frozenset[str]:
    return frozenset(last_name(d.func if isinstance(d, f.Call) else d) for d in decorators)
