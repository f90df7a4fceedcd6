"""Conditions that the text of the calls decides: on parameters that every call of a function gives as constants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from ampify.index.flow import Flow
from ampify.index.syntax import expressions, in_order, last_name, path_to, statements
from ampify.index.values import ClassValue, Frame, FunctionValue, Instance
from ampify.model import facts as f

# How many calls a constant is followed through.
DEPTH = 4
# Decorators that hand a function just the arguments of the call.
PLAIN = frozenset({"staticmethod", "classmethod"})


@dataclass(frozen=True, slots=True)
class Known:
    """A value that is known."""

    value: str | int | float | bool | None


Truth: TypeAlias = bool | None


class Constants:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._kept: dict[tuple[Frame, str], Known | None] = {}
        self._rebound: dict[tuple[str, int], frozenset[str]] = {}

    def truth(self, test: f.Expr, frame: Frame) -> Truth:
        """Whether a condition holds in a frame; None if that is not known."""
        known = self.known(test, frame, DEPTH)
        if known is not None:
            return bool(known.value)
        if isinstance(test, f.Name):
            value = self.assigned(test.id, frame)
            return None if value is None else self.truth(value, frame)
        if not isinstance(test, f.Operation):
            return None
        if test.operator == "Not":
            inner = self.truth(test.operands[0], frame)
            return None if inner is None else not inner
        if test.kind == "BoolOp":
            parts = [self.truth(part, frame) for part in test.operands]
            decisive = test.operator == "Or"
            return decisive if decisive in parts else None if None in parts else not decisive
        return self.compared(test, frame) if test.kind == "Compare" else None

    def assigned(self, name: str, frame: Frame) -> f.Expr | None:
        """What a variable of a function is given by the one statement that gives it anything, whenever that is run."""
        scope = self.flow.scope(frame)
        if scope.kind != "function" or name not in scope.bound or any(p.name == name for p in scope.parameters):
            return None
        if any(name in inner.outer - inner.globally for inner in self.flow.files[frame.path].scopes):
            return None
        found = [s for s in statements(scope.body) if name in _bound_by(s)]
        only = found[0] if len(found) == 1 and found[0] in scope.body else None
        plain = isinstance(only, f.Assign) and only.kind != "AugAssign" and len(only.targets) == 1
        return only.value if isinstance(only, f.Assign) and plain and isinstance(only.targets[0], f.Name) else None

    def decided(self, test: f.Expr, frame: Frame) -> Truth:
        """Whether a condition holds in a frame, if it does not in others of the same function: a call that is the only
        one is looked at as if its constants could be others."""
        truth = self.truth(test, frame)
        if truth is None:
            return None
        others = self.flow.frames_of.get((frame.path, frame.scope), ())
        return truth if any(self.truth(test, other) is not truth for other in others) else None

    def compared(self, test: f.Operation, frame: Frame) -> Truth:
        """A comparison of two."""
        left = self.known(test.operands[0], frame, DEPTH)
        others = self.choices(test, frame)
        if left is None or others is None:
            return None
        found = any(type(left.value) is type(o.value) and left.value == o.value for o in others)
        if not found and any(_of_other_kinds(left.value, other.value) for other in others):
            return None
        return {"Eq": found, "Is": found, "In": found, "NotEq": not found, "IsNot": not found, "NotIn": not found}.get(
            test.operator
        )

    def choices(self, test: f.Operation, frame: Frame) -> list[Known] | None:
        """What the left side of a comparison is compared with; None if some of it is not known."""
        right = test.operands[1]
        if test.operator not in ("In", "NotIn"):
            known = self.known(right, frame, DEPTH)
            if test.operator in ("Is", "IsNot") and known is not None and not isinstance(known.value, bool | None):
                return None
            return None if known is None else [known]
        items = right.items if isinstance(right, f.Elements) else None
        if items is None:
            return None
        found = [self.known(item, frame, DEPTH) for item in items]
        return None if None in found else [known for known in found if known is not None]

    def known(self, expr: f.Expr, frame: Frame, depth: int) -> Known | None:
        """A constant, or a parameter that every call gives as one."""
        if isinstance(expr, f.Constant):
            return Known(expr.value)
        if isinstance(expr, f.Attribute) and depth:
            return self.field(expr, frame, depth)
        if not isinstance(expr, f.Name) or not depth:
            return None
        key = (frame, expr.id)
        if key not in self._kept:
            self._kept[key] = None  # what a function hands on to itself
            self._kept[key] = self.parameter(expr.id, frame, depth)
        return self._kept[key]

    def field(self, expr: f.Attribute, frame: Frame, depth: int) -> Known | None:
        """A field that nothing but the constructor of its object sets, once."""
        owners = tuple(self.flow.evaluate(expr.value, frame))
        set_at = self.stores.get(expr.attr, [])
        if len(owners) != 1 or not isinstance(owners[0], Instance) or len(set_at) != 1:
            return None
        path, scope, value = set_at[0]
        made = self.flow.files[path].scopes[scope]
        if value is None or made.name != "__init__" or not made.parameters or self.written_around(path):
            return None
        frames = self.flow.frames_of.get((path, scope), ())
        own = [fr for fr in frames if owners[0] in self.flow.store.read(fr, made.parameters[0].name, None)]
        found = [self.known(value, fr, depth - 1) for fr in own]
        return found[0] if found and all(k is not None and k == found[0] for k in found) else None

    def written_around(self, path: str) -> bool:
        """Whether a file gets at fields without naming them."""
        return any("__dict__" in line or "vars(" in line for line in self.flow.files[path].lines)

    @cached_property
    def stores(self) -> dict[str, list[tuple[str, int, f.Expr | None]]]:
        """Where attributes of a name are set, or might be: file, scope, and the value if that is the whole story."""
        found: dict[str, list[tuple[str, int, f.Expr | None]]] = {}
        for path, facts in self.flow.files.items():
            by_name = "setattr" in facts.names or "setattr" in facts.read
            for scope in facts.scopes:
                for name, value in _stored(scope, by_name=by_name):
                    found.setdefault(name, []).append((path, scope.index, value))
        return found

    def parameter(self, name: str, frame: Frame, depth: int) -> Known | None:
        scope = self.flow.scope(frame)
        positions = [p.name for p in scope.parameters if p.kind == "positional"]
        parameter = next((p for p in scope.parameters if p.name == name), None)
        if parameter is None or parameter.kind not in ("positional", "keyword") or name in self.rebound(frame):
            return None
        if scope.kind != "function" or any(last_name(d) not in PLAIN for d in scope.decorators):
            return None
        index = positions.index(name) if name in positions else None
        given = [self.argument(parameter, index, frame, site, depth) for site in self.flow.callers.get(frame, ())]
        same = bool(given) and all(known is not None and known == given[0] for known in given)
        return given[0] if same else None

    def argument(
        self,
        parameter: f.Parameter,
        index: int | None,
        callee: Frame,
        site: tuple[Frame, f.Span],
        depth: int,
    ) -> Known | None:
        """What one call gives for a parameter."""
        caller, span = site
        call = self.call_at(caller, span)
        if call is None or any(isinstance(a, f.Starred) for a in call.args) or any(n is None for n, _ in call.keywords):
            return None
        bound = self.bound(call, caller, callee)
        if bound is None:
            return None
        value = next((value for name, value in call.keywords if name == parameter.name), None)
        if value is None and index is not None and 0 <= index - bound < len(call.args):
            value = call.args[index - bound]
        if value is not None:
            return self.known(value, caller, depth - 1)
        return Known(parameter.default.value) if isinstance(parameter.default, f.Constant) else None

    def bound(self, call: f.Call, caller: Frame, callee: Frame) -> int | None:
        """How many parameters are given without standing in the call (`self`); None if it does not call just this."""
        counts: set[int] = set()
        for value in self.flow.calls.callee(call, caller):
            if isinstance(value, FunctionValue):
                counts.add(int(value.receiver is not None))
                meant = (value.path, value.scope) == (callee.path, callee.scope)
            else:
                counts.add(1)
                meant = isinstance(value, ClassValue) and self.flow.scope(callee).name == "__init__"
            if not meant:
                return None
        return counts.pop() if len(counts) == 1 else None

    def call_at(self, frame: Frame, span: f.Span) -> f.Call | None:
        way = path_to(self.flow.scope(frame).body, span)
        for whole in expressions(way[-1][0][way[-1][1]]) if way else ():
            for node, _ in in_order(whole):
                if isinstance(node, f.Call) and node.span == span:
                    return node
        return None

    def rebound(self, frame: Frame) -> frozenset[str]:
        """Names that a function gives another value, or lets a function in it do so."""
        key = (frame.path, frame.scope)
        if key not in self._rebound:
            self._rebound[key] = frozenset(_rebound(self.flow.files[frame.path].scopes, frame.scope))
        return self._rebound[key]


def _of_other_kinds(one: object, other: object) -> bool:
    """Whether two values are numbers of different types, which may be equal all the same (`1 == True`)."""
    return type(one) is not type(other) and isinstance(one, int | float) and isinstance(other, int | float)


def _stored(scope: f.Scope, *, by_name: bool) -> Iterator[tuple[str, f.Expr | None]]:
    """Attributes that a scope's statements set, and names of a class, which all its objects have; `by_name` tells that
    its file has a `setattr`."""
    if scope.kind == "class":
        yield from ((name, None) for name in sorted(scope.bound))
    own_statements = frozenset(map(id, scope.body))
    for statement in statements(scope.body):
        top = isinstance(statement, f.Assign) and statement.kind != "AugAssign" and id(statement) in own_statements
        for target in _targets(statement):
            if isinstance(target, f.Attribute):
                own = isinstance(target.value, f.Name) and target.value.id == _first(scope)
                yield target.attr, statement.value if top and own and isinstance(statement, f.Assign) else None
            elif not isinstance(target, f.Name):
                yield from ((node.attr, None) for node, _ in in_order(target) if isinstance(node, f.Attribute))
        for whole in expressions(statement) if by_name else ():
            for node, _ in in_order(whole):
                if isinstance(node, f.Call) and last_name(node.func) == "setattr" and len(node.args) > 1:
                    yield str(getattr(node.args[1], "value", "")), None


def _first(scope: f.Scope) -> str:
    return scope.parameters[0].name if scope.parameters else ""


def _targets(statement: f.Stmt) -> tuple[f.Expr, ...]:
    """What a statement gives a new value, or takes it from."""
    match statement:
        case f.Assign():
            return statement.targets
        case f.For():
            return (statement.target,)
        case f.With():
            return tuple(name for _, name in statement.items if name is not None)
        case f.Simple():
            return statement.operands
    return ()


def _rebound(scopes: tuple[f.Scope, ...], index: int) -> set[str]:
    found: set[str] = set()
    for scope in scopes[index + 1 :]:
        found |= scope.outer - scope.globally
        if scope.parent == index:
            found.add(scope.name)
    for statement in statements(scopes[index].body):
        found |= _bound_by(statement)
    return found


def _bound_by(statement: f.Stmt) -> set[str]:
    """Names that a statement itself gives a value, or takes it from."""
    found = {node.id for target in _targets(statement) for node, _ in in_order(target) if isinstance(node, f.Name)}
    if isinstance(statement, f.Import):
        found |= {name.bound for name in statement.names}
    for whole in expressions(statement):
        found |= {node.target.id for node, _ in in_order(whole) if isinstance(node, f.Walrus)}
    return found
