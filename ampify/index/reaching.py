"""How a function that needs a loop's scaler gets at it: by its name, as a field, or along the calls that lead there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ampify.index.flow import Flow
from ampify.index.moments import Spot, around
from ampify.index.names import Names
from ampify.index.slices import Slices
from ampify.index.syntax import dotted_name, expressions, in_order, is_called, last_name, spelled, statements
from ampify.index.values import ClassValue, Frame, FunctionValue, Instance, Method, Opaque, Value, Values
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.scaling import Passing

Scope: TypeAlias = tuple[str, int]
# By its last name, each call of a function and each other use of one: file, scope, expression, is it a call.
Mentions: TypeAlias = Mapping[str, Sequence[tuple[str, int, f.Expr, bool]]]


class OutOfReach(Exception):
    """A function cannot get at the scaler; says where that shows, why, and what to do where the rule's hint is off."""

    def __init__(self, anchor: Anchor, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.anchor = anchor
        self.detail = detail
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Home:
    """Where a scaler is made. `owner` is the object that gets it as a field, spelled `spelled` there; without, it is a
    variable of the function or module."""

    anchor: Anchor
    spot: Spot
    spelled: str = ""
    owner: Values = frozenset()

    def scaler(self, name: str) -> str:
        """The scaler as it is spelled there."""
        return f"{self.spelled}.{name}" if self.spelled else name

    @property
    def scope(self) -> Scope:
        """The function or module where it is made."""
        return self.spot.frame.path, self.spot.frame.scope


@dataclass(slots=True)
class Reach:
    """Finds the way to one loop's scaler; what must be passed for that gathers in `parameters` and `arguments`."""

    flow: Flow
    slices: Slices
    names: Names
    homes: Sequence[Home]
    name: str
    mentions: Callable[[], Mentions]
    parameters: dict[Anchor, Passing] = field(default_factory=dict)
    arguments: dict[Anchor, Passing] = field(default_factory=dict)
    _threaded: dict[Scope, Anchor] = field(default_factory=dict)

    def at(self, spot: Spot) -> str:
        """The scaler as an expression at a place; raises OutOfReach."""
        known = self.visible(spot)
        if known is not None and not self.is_handed_over(spot.frame):
            return known
        before = (dict(self.parameters), dict(self.arguments), dict(self._threaded))
        try:
            self.thread(spot.frame)
        except OutOfReach:
            # What was passed along on the way there is not, and the next attempt must not take it for done.
            self.parameters, self.arguments, self._threaded = before
            if known is None:
                raise
            return known
        return self.name

    def is_handed_over(self, frame: Frame) -> bool:
        """Whether a function gets the optimizer as a parameter, though the scaler is a variable of its module."""
        if frame.outer is None or any(home.owner or (frame.path, frame.scope) == home.scope for home in self.homes):
            return False
        scope = self.flow.scope(frame)
        parameters = (parameter.name for parameter in scope.parameters)
        return any(
            self.names.entities.is_optimizer(value)
            for name in parameters
            for value in self.flow.evaluate(f.Name((1, 0, 1, 0), name), frame)
        )

    def visible(self, spot: Spot) -> str | None:
        """The scaler's name where nothing needs to be passed; None if there is none."""
        frame = spot.frame
        for home in self.homes:
            if home.owner:
                text = self.owner_at(home, spot)
                if text is not None:
                    return f"{text}.{self.name}"
            elif (frame.path, frame.scope) == home.scope:
                self.require_after(home, spot)
                return self.name
            elif (home.spot.frame.outer is None and frame.path == home.scope[0]) or any(
                (outer.path, outer.scope) == home.scope for outer in around(frame)
            ):
                return self.name
        return None

    def require_after(self, home: Home, spot: Spot) -> None:
        if spot.at[:2] < home.anchor.end:
            anchor = self.flow.files[spot.frame.path].anchor(f.Simple(spot.at, "Pass", ()))
            raise OutOfReach(anchor, "this runs before the place where the scaler can be made")

    def owner_at(self, home: Home, spot: Spot) -> str | None:
        """How the object that has the scaler as a field is spelled at a place. One of several objects is known by its
        own methods alone: any other name would be that of one of them wherever the code runs."""
        if all(other.owner == home.owner for other in self.homes):
            for held in self.names.visible(spot):
                if held.values == home.owner:
                    return held.text
        parameter = own_parameter(self.flow, spot.frame)
        return parameter.name if parameter is not None and owner_of(self.flow, spot.frame) == home.owner else None

    # Along calls

    def thread(self, frame: Frame) -> None:
        """Has a function take the scaler as a parameter, and all that call it hand it on."""
        key = (frame.path, frame.scope)
        if key in self._threaded:
            return
        scope = self.flow.scope(frame)
        definition = self.definition(frame, scope)
        self._threaded[key] = definition
        sites = self.sites(key)
        if not sites:
            raise OutOfReach(definition, f"nothing in the files given calls {scope.name}()")
        self.refuse_other_uses(key, scope, definition, {(c.path, span) for c, span in sites})
        self.parameters[definition] = Passing(definition, self.name)
        for caller, span in sites:
            self.hand_on(caller, span, key, scope)

    def definition(self, frame: Frame, scope: f.Scope) -> Anchor:
        """The statement that defines a function; raises OutOfReach where it cannot get a parameter."""
        facts = self.flow.files[frame.path]
        where = Anchor(frame.path, *scope.span, "FunctionDef")
        if scope.kind != "function" or scope.parent is None or scope.name == "__init__":
            raise OutOfReach(where, f"{_called(scope)} is no function that could be given the scaler")
        parent = facts.scopes[scope.parent]
        found = (s for s in statements(parent.body) if isinstance(s, f.Define) and s.scope == scope.index)
        statement = next(found, None)
        if statement is None:
            raise OutOfReach(where, f"{scope.name} is no function that could be given the scaler")
        if statement.decorators:
            raise OutOfReach(facts.anchor(statement), f"{scope.name}() is decorated, so it cannot be given the scaler")
        return facts.anchor(statement)

    def sites(self, key: Scope) -> list[tuple[Frame, f.Span]]:
        """All calls of a function that the flow knows of."""
        frames = self.flow.frames_of.get(key, ())
        return list(dict.fromkeys(site for frame in frames for site in self.flow.callers.get(frame, ())))

    def hand_on(self, caller: Frame, span: f.Span, key: Scope, scope: f.Scope) -> None:
        """Gives a call the scaler as an argument."""
        facts = self.flow.files[caller.path]
        call = next((c for c in self.slices.calls(caller, span) if c.span == span), None)
        if call is None:
            raise OutOfReach(Anchor(caller.path, *span, "Call"), f"{scope.name}() is not called by name here")
        anchor = facts.anchor(call)
        callees = self.callees(call, caller)
        if not all(isinstance(callee, FunctionValue) for callee in callees) or not callees:
            raise OutOfReach(anchor, f"something else than {scope.name}() may be called here")
        for target in self.slices.targets(call, caller):
            self.thread(target)
        statement = next(s for s in statements(self.flow.scope(caller).body) if self.holds(s, call))
        stack = ((caller, statement.span),)
        text = self.at(Spot(caller, statement.span, stack, frozenset(), -1))
        keyword = scope.parameters and (call.keywords or any(isinstance(a, f.Starred) for a in call.args))
        plain = not keyword and self.is_full(call, scope)
        self.arguments[anchor] = Passing(anchor, text if plain else f"{self.name}={text}")

    def callees(self, call: f.Call, caller: Frame) -> Values:
        """What a call may call, less what its name was taken for before a star import was known to bind it."""
        found = self.flow.calls.callee(call, caller)
        makers = {
            self.flow.files[c.receiver.cls.path].scopes[c.receiver.cls.scope].name
            for c in found
            if isinstance(c, FunctionValue) and isinstance(c.receiver, Instance) and c.receiver.cls is not None
        }
        return frozenset(
            c for c in found if not (isinstance(c, Method) and isinstance(c.of, Instance) and c.of.dotted in makers)
        )

    def holds(self, statement: f.Stmt, call: f.Call) -> bool:
        return any(node is call for e in self.slices.evaluated(statement) for node, _ in in_order(e))

    @staticmethod
    def is_full(call: f.Call, scope: f.Scope) -> bool:
        """Whether a call gives every parameter by position, so that one more argument is the new parameter's."""
        own = [p for p in scope.parameters if not (p.name == "self" and isinstance(call.func, f.Attribute))]
        return all(p.kind == "positional" and p.default is None for p in own) and len(call.args) == len(own)

    def refuse_other_uses(self, key: Scope, scope: f.Scope, definition: Anchor, known: set[tuple[str, f.Span]]) -> None:
        """Raises OutOfReach if a function is used otherwise than by the calls that are known."""
        method = self.flow.files[key[0]].scopes[scope.parent or 0].kind == "class"
        for path, index, node, called in self.mentions().get(scope.name, ()):
            at = self.flow.files[path].anchor(node)
            call = isinstance(node, f.Call)
            if call and (path, node.span) in known:
                continue
            if self.may_mean(key, path, index, node.func if isinstance(node, f.Call) else node, method):
                what = "is called here by what ampify cannot follow" if called else "is handed on here"
                raise OutOfReach(at, f"{scope.name}() {what}")

    def may_mean(self, key: Scope, path: str, index: int, expr: f.Expr, method: bool) -> bool:
        """Whether an expression may be a certain function."""
        if not method and isinstance(expr, f.Attribute) and "." in dotted_name(expr.value):
            return False
        frames = self.flow.frames_of.get((path, index), ())
        for frame in frames:
            for value in self.flow.evaluate(expr, frame):
                if isinstance(value, FunctionValue) and (value.path, value.scope) == key:
                    return True
                if method and isinstance(expr, f.Attribute) and _unknown(value, expr.attr):
                    return True
        return False


def _called(scope: f.Scope) -> str:
    return "the code outside of all functions" if scope.parent is None else scope.name or "this"


def _unknown(value: Value, name: str) -> bool:
    """Whether a value is that attribute of something unknown. What a variable or a field holds is a method only where
    some expression names the method."""
    return isinstance(value, Opaque) and value.name == name and not isinstance(value.of, Instance)


def mentions(flow: Flow) -> Mentions:
    """The uses of functions in all files."""
    found: dict[str, list[tuple[str, int, f.Expr, bool]]] = {}
    for path, facts in flow.files.items():
        for scope in facts.scopes:
            for node, called in _uses(scope):
                name = last_name(node.func if isinstance(node, f.Call) else node)
                found.setdefault(name, []).append((path, scope.index, node, called))
    return found


def _uses(scope: f.Scope) -> Iterator[tuple[f.Expr, bool]]:
    for statement in statements(scope.body):
        for expression in expressions(statement):
            for node, parents in in_order(expression):
                if isinstance(node, f.Call):
                    yield node, True
                elif isinstance(node, f.Name | f.Attribute):
                    outer = parents[-1] if parents else None
                    if not is_called(node, parents) and not isinstance(outer, f.Attribute):
                        yield node, False


def home_of(anchor: Anchor, optimizer: str, spot: Spot, flow: Flow) -> Home:
    """Where the scaler of a place is kept: beside the optimizer, if that is a field of an object of the project."""
    owner, _, _ = optimizer.rpartition(".")
    if owner and all(part.isidentifier() for part in owner.split(".")):
        values = flow.evaluate(spelled(owner), spot.frame)
        if len(values) == 1 and all(isinstance(v, Instance) and isinstance(v.cls, ClassValue) for v in values):
            return Home(anchor, spot, owner, values)
    return Home(anchor, spot)


def own_parameter(flow: Flow, frame: Frame) -> f.Parameter | None:
    """The first parameter of a function: `self`, in a method."""
    return next(iter(flow.scope(frame).parameters), None)


def owner_of(flow: Flow, frame: Frame) -> Values:
    """What the first parameter of a function stands for."""
    parameter = own_parameter(flow, frame)
    return frozenset() if parameter is None else flow.evaluate(f.Name((1, 0, 1, 0), parameter.name), frame)


def free_name(candidates: Iterable[str], taken: Iterable[frozenset[str]]) -> str | None:
    """The first name that nothing bears."""
    known = list(taken)
    return next((name for name in candidates if not any(name in names for names in known)), None)
