"""The code behind what the flow noted by range alone: the call at a range, and where a write takes its value from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ampify.index.flow import Flow
from ampify.index.syntax import expressions, in_order, inside, nodes, path_to, statements
from ampify.index.values import Frame, Place
from ampify.model import facts as f


@dataclass(frozen=True, slots=True)
class Origin:
    """An expression that something takes its value from, or, if `part`, one element from."""

    expr: f.Expr
    part: bool = False


class Written:
    """Answers from the facts of a flow's files; every scope is gone through once."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._nodes: dict[tuple[str, int], dict[f.Span, list[f.Expr]]] = {}
        self._calls: dict[tuple[Frame, f.Span], list[Frame]] = {}
        for callee, sites in flow.callers.items():
            for site in sites:
                self._calls.setdefault(site, []).append(callee)

    def nodes_at(self, frame: Frame, span: f.Span) -> list[f.Expr]:
        """The expressions of a frame's function at a range, the outermost last."""
        key = (frame.path, frame.scope)
        if key not in self._nodes:
            found: dict[f.Span, list[f.Expr]] = {}
            for node, _ in nodes(self.flow.scope(frame).body):
                found.setdefault(node.span, []).append(node)
            for decorator in (d for s in self.flow.files[frame.path].scopes for d in s.decorators):
                found.setdefault(decorator.span, []).append(decorator)
            self._nodes[key] = found
        return self._nodes[key].get(span, [])

    def call_at(self, frame: Frame, span: f.Span) -> f.Call | None:
        """The call of a frame's function at a range."""
        return next((node for node in self.nodes_at(frame, span) if isinstance(node, f.Call)), None)

    def called(self, frame: Frame, span: f.Span) -> list[Frame]:
        """The frames that a call, or the access of a property, enters."""
        return self._calls.get((frame, span), [])

    def frames(self, place: Place, sites: tuple[Place, ...]) -> Iterator[Frame]:
        """The frames that ran what is at a place, from these call sites."""
        path, span = place
        for scope in self.flow.files[path].scopes:
            if scope.kind == "module" or inside(span, scope.span):
                yield from (fr for fr in self.flow.frames_of.get((path, scope.index), ()) if fr.sites == sites)

    def returned(self, frame: Frame) -> Iterator[f.Expr]:
        """What a frame's function returns."""
        for statement in statements(self.flow.scope(frame).body):
            if isinstance(statement, f.Return) and statement.value is not None:
                yield statement.value

    def imports(self, frame: Frame, name: str) -> Iterator[tuple[f.Import, f.ImportedName]]:
        """The imports of a frame's function that bind a name, or, if it is "*", every name of a module."""
        for statement in statements(self.flow.scope(frame).body):
            if isinstance(statement, f.Import):
                yield from ((statement, bound) for bound in statement.names if bound.bound == name)

    def origins(self, frame: Frame, span: f.Span) -> Iterator[Origin]:
        """Where a write takes its value from; `span` is the range of its target, or of the call that writes."""
        way = path_to(self.flow.scope(frame).body, span)
        if not way:
            return
        block, index = way[-1]
        statement = block[index]
        match statement:
            case f.Assign() if any(inside(span, target.span) for target in statement.targets):
                parts = any(isinstance(t, f.Elements) and inside(span, t.span) for t in statement.targets)
                yield Origin(statement.value, parts)
                return
            case f.For() if inside(span, statement.target.span):
                yield Origin(statement.iterable, part=True)
                return
            case f.With():
                yield from (Origin(c) for c, name in statement.items if name is not None and inside(span, name.span))
        for expression in expressions(statement):
            for node, _ in in_order(expression):
                yield from _within(node, span)


def _within(node: f.Expr, span: f.Span) -> Iterator[Origin]:
    match node:
        case f.Comprehension():
            targets = (iterable for target, iterable, _ in node.generators if inside(span, target.span))
            yield from (Origin(iterable, part=True) for iterable in targets)
        case f.Walrus() if node.target.span == span:
            yield Origin(node.value)
        case f.Call() if node.span == span:
            yield from (Origin(arg) for arg in (*node.args, *(value for _, value in node.keywords)))
            yield from (Origin(arg, part=True) for arg in node.args)
