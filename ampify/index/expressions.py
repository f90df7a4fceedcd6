"""What expressions of each kind may evaluate to, names and calls apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ampify.index.syntax import subscript_key
from ampify.index.values import (
    NOTHING,
    Container,
    Derived,
    Frame,
    FunctionValue,
    Instance,
    NoneValue,
    Opaque,
    Parameters,
    Text,
    Values,
)
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.flow import Flow

Evaluator: TypeAlias = Callable[[Any, Frame], Values]

# What a call of a function that yields gives.
GENERATOR: Final = "generator"
# What the result of an operation may be, of what its operands are: to be asked of millions of values.
_KEPT: Final = (Derived, Parameters, Container, Opaque)


class Expressions:
    """Evaluates expressions that hand on what their parts are, or make containers of it."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def evaluators(self) -> dict[type[f.Expr], Evaluator]:
        """By the type of an expression, what evaluates it in a frame."""
        return {
            f.Constant: self.constant,
            f.Elements: self.display,
            f.Mapping: self.mapping,
            f.Subscript: self.subscript,
            f.Starred: self.starred,
            f.Comprehension: self.comprehension,
            f.Lambda: self.function,
            f.Walrus: self.walrus,
            f.Operation: self.operation,
        }

    def constant(self, expr: f.Constant, frame: Frame) -> Values:
        if expr.value is None:
            return self.flow.one(NoneValue)
        return self.flow.one(Text, expr.value) if isinstance(expr.value, str) else NOTHING

    def display(self, expr: f.Elements, frame: Frame) -> Values:
        flow = self.flow
        fields: dict[str, Values] = {}
        for index, item in enumerate(expr.items):
            name = "[*]" if isinstance(item, f.Starred) or expr.kind == "Set" else f"[{index}]"
            values = flow.evaluate(item, frame)
            if isinstance(item, f.Starred):
                values = flow.elements(values)
            fields[name] = fields.get(name, NOTHING) | values
        return flow.container((frame.path, expr.span), frame, "set" if expr.kind == "Set" else "", fields)

    def mapping(self, expr: f.Mapping, frame: Frame) -> Values:
        flow = self.flow
        fields: dict[str, Values] = {}
        for index, value in zip(expr.keys, expr.values, strict=True):
            name = subscript_key(index) if index is not None else "[*]"
            values = flow.evaluate(value, frame)
            if index is None:
                values = flow.elements(values)
            fields[name] = fields.get(name, NOTHING) | values
        return flow.container((frame.path, expr.span), frame, "dict", fields)

    def subscript(self, expr: f.Subscript, frame: Frame) -> Values:
        found = self.flow.element(self.flow.evaluate(expr.value, frame), subscript_key(expr.index))
        return found | self.by_name(expr, frame)

    def by_name(self, expr: f.Subscript, frame: Frame) -> Values:
        """The attributes that `self.__dict__[name]` asks for."""
        if not isinstance(expr.value, f.Attribute) or expr.value.attr != "__dict__":
            return NOTHING
        owners = self.flow.evaluate(expr.value.value, frame)
        own = frozenset(o for o in owners if isinstance(o, Instance) and o.cls is not None)
        names = [v.text for v in self.flow.evaluate(expr.index, frame) if isinstance(v, Text)]
        return NOTHING.union(*(self.flow.attribute(own, name, called=False) for name in names))

    def starred(self, expr: f.Starred, frame: Frame) -> Values:
        return self.flow.evaluate(expr.value, frame)

    def comprehension(self, expr: f.Comprehension, frame: Frame) -> Values:
        flow = self.flow
        for target, iterable, conditions in expr.generators:
            flow.assign(target, flow.elements(flow.evaluate(iterable, frame)), frame)
            for condition in conditions:
                flow.evaluate(condition, frame)
        values = flow.evaluate(expr.element, frame)
        part = "" if expr.kind == "ListComp" else expr.kind
        return flow.container((frame.path, expr.span), frame, part, {"[*]": values})

    def function(self, expr: f.Lambda, frame: Frame) -> Values:
        return self.flow.one(FunctionValue, frame.path, expr.scope, frame, None)

    def walrus(self, expr: f.Walrus, frame: Frame) -> Values:
        values = self.flow.evaluate(expr.value, frame)
        self.flow.assign(expr.target, values, frame)
        return values

    def operation(self, expr: f.Operation, frame: Frame) -> Values:
        flow = self.flow
        found = NOTHING
        for operand in expr.operands:
            found |= flow.evaluate(operand, frame)
        if not found:
            return NOTHING
        if expr.kind in ("Yield", "YieldFrom"):
            given = flow.elements(found) if expr.kind == "YieldFrom" else found
            made = flow.container((frame.path, expr.span), frame, GENERATOR, {"[*]": given})
            flow.store.add(frame, "return", made)
        if expr.kind in ("IfExp", "BoolOp", "Await", "YieldFrom"):
            return found
        return frozenset([value for value in found if isinstance(value, _KEPT)])
