"""What a call does to the flow: arguments into parameters, returns out of them, and what outside code gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ampify import catalog
from ampify.index.arguments import first, flowing
from ampify.index.outside_calls import OutsideCalls
from ampify.index.probability_calls import is_probability_loss
from ampify.index.values import (
    NOTHING,
    ClassValue,
    Container,
    Derived,
    External,
    Frame,
    FunctionValue,
    Instance,
    Method,
    NoneValue,
    Opaque,
    Parameters,
    Partial,
    Place,
    Value,
    Values,
    ordered,
)
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.flow import Flow

_Parameters: TypeAlias = tuple[tuple[str, ...], frozenset[str], tuple[f.Parameter, ...]]


class Calls:
    """Evaluates calls."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.outside = OutsideCalls(flow, self)
        # What was made of each class of the project, in order.
        self.made: dict[ClassValue, dict[Instance, None]] = {}
        self._parameters: dict[tuple[str, int], _Parameters] = {}

    def callee(self, call: f.Call, frame: Frame) -> Values:
        """What a call may call."""
        if isinstance(call.func, f.Attribute):
            return self.flow.attribute_of(call.func, frame, called=True)
        return self.flow.evaluate(call.func, frame)

    def call(self, call: f.Call, frame: Frame) -> Values:
        """What a call may return; its arguments are handed on."""
        positional, keywords = self.arguments(call, frame)
        place = (frame.path, call.span)
        callees = self.callee(call, frame)
        if len(callees) == 1:
            (callee,) = callees
            return self.apply(callee, call, frame, place, positional, keywords)
        found: set[Value] = set()
        for callee in callees:
            found |= self.apply(callee, call, frame, place, positional, keywords)
        return frozenset(found)

    def arguments(self, call: f.Call, frame: Frame) -> tuple[list[Values], dict[str, Values]]:
        """Values of the arguments; a starred tuple of known length is spread, any other goes to all that follow."""
        positional: list[Values] = []
        for arg in call.args:
            values = self.flow.evaluate(arg, frame)
            if not isinstance(arg, f.Starred):
                positional.append(values)
                continue
            count = self.spread(values)
            positional.extend(self.flow.element(values, f"[{i}]") for i in range(count))
        keywords: dict[str, Values] = {}
        for name, value in call.keywords:
            values = self.flow.evaluate(value, frame)
            if name is not None:
                keywords[name] = values
                continue
            for owner in values:
                for field in self.flow.store.fields(owner, self.flow.reader):
                    if field.startswith("['"):
                        keywords[field[2:-2]] = self.flow.store.read(owner, field, self.flow.reader)
        return positional, keywords

    def spread(self, values: Values) -> int:
        """How many arguments a starred value stands for: as many as its last known element asks for."""
        store, reader = self.flow.store, self.flow.reader
        fields = [name[1:-1] for v in values if isinstance(v, Container) for name in store.fields(v, reader)]
        return min(max((int(name) + 1 for name in fields if name.isdecimal()), default=1), 20)

    def apply(
        self,
        callee: Value,
        call: f.Call,
        frame: Frame,
        place: Place,
        positional: list[Values],
        keywords: dict[str, Values],
    ) -> Values:
        """What calling one value returns."""
        match callee:
            case FunctionValue():
                return self.invoke(callee, positional, keywords, (frame, call))
            case ClassValue():
                return self.construct(callee, call, frame, place, positional, keywords)
            case Instance() if callee.cls is not None:
                return self.call_instance(callee, positional, keywords, (frame, call))
            case Method():
                return self.outside.method(callee, call, frame, place, positional, keywords)
            case External():
                return self.outside.external(callee.dotted, call, frame, place, positional, keywords)
            case Instance():
                return self.outside.call(callee, (frame, call), positional, keywords)
            case Partial():
                before, named = self.kept(callee)
                return self.apply(callee.of, call, frame, place, before + positional, named | keywords)
            case NoneValue():
                return NOTHING
            case Opaque() | Parameters():
                return self.flow.one(Derived, callee) | flowing(self.flow, positional, keywords)
        return flowing(self.flow, positional, keywords)

    def decorate(self, decorators: Iterable[f.Expr], cls: Values, frame: Frame) -> None:
        """Hands a class to the project's own functions that decorate it: a registry keeps it under a name."""
        for decorator in decorators:
            call = f.Call(decorator.span, decorator, (), ())
            for function in self.flow.evaluate(decorator, frame):
                if isinstance(function, FunctionValue):
                    self.invoke(function, (cls,), {}, (frame, call))

    def kept(self, partial: Partial) -> tuple[list[Values], dict[str, Values]]:
        """The arguments that a partial function keeps."""
        store, reader = self.flow.store, self.flow.reader
        named = {
            field[2:-2]: store.read(partial, field, reader) for field in store.fields(partial, reader) if "'" in field
        }
        return [store.read(partial, f"[{i}]", reader) for i in range(partial.given)], named

    # Functions of the project

    def invoke(
        self,
        function: FunctionValue,
        positional: list[Values] | tuple[Values, ...],
        keywords: Mapping[str, Values],
        at: tuple[Frame, f.Call] | None,
    ) -> Values:
        """Binds arguments to parameters in the frame of this call, and reads what that returns."""
        if self.is_forward(function):
            return self.forward(function, positional, keywords, at)
        callee = self.flow.contexts.frame(function, at)
        self.flow.called.add((function.path, function.scope))
        if at is not None:
            self.flow.callers.setdefault(callee, {})[(at[0], at[1].span)] = None
        given = list(positional)
        if function.receiver is not None:
            given.insert(0, frozenset((function.receiver,)))
        self.bind_parameters(callee, given, keywords)
        self.flow.enter(callee)
        return self.flow.store.read(callee, "return", self.flow.reader)

    def read_property(self, function: FunctionValue) -> Values:
        """Has the attribute access under way call the function of a property; all accesses share a frame."""
        if self.flow.access is not None:
            self.flow.callers.setdefault(self.flow.contexts.frame(function, None), {})[self.flow.access] = None
        return self.invoke(function, (), {}, None)

    def is_forward(self, function: FunctionValue) -> bool:
        """Whether a function is the forward of a module."""
        scope = self.flow.files[function.path].scopes[function.scope]
        receiver = function.receiver
        return scope.name == "forward" and isinstance(receiver, Instance) and self.is_module(receiver)

    def forward(
        self,
        function: FunctionValue,
        positional: list[Values] | tuple[Values, ...],
        keywords: Mapping[str, Values],
        at: tuple[Frame, f.Call] | None,
    ) -> Values:
        """A module's forward gives tensors computed by the module, whatever happens inside.

        It is entered, for what it does on the way, but with unknown inputs and in one frame: following every tensor
        through every layer would cost much and tell nothing more.
        """
        assert isinstance(function.receiver, Instance)
        self.flow.called.add((function.path, function.scope))
        if function.receiver.cls is None or not self.flow.classes.is_inert(function.receiver.cls):
            callee = self.flow.contexts.frame(function, at)
            if at is not None:
                self.flow.callers.setdefault(callee, {})[(at[0], at[1].span)] = None
            self.enter_function(function, self.flow.scope(callee))
            self.hand_losses(function, positional, keywords)
        return self.flow.one(Derived, function.receiver) | flowing(self.flow, positional, keywords)

    def hand_losses(
        self,
        function: FunctionValue,
        positional: list[Values] | tuple[Values, ...],
        keywords: Mapping[str, Values],
    ) -> None:
        """Of what a forward is given, the losses that it may call."""
        # In this frame a forward is entered, whoever calls it.
        frame = self.flow.contexts.frame(function, None)
        places, named, _ = self.parameters_of(frame, self.flow.scope(frame))
        by_name = [(name, values) for name, values in keywords.items() if name in named]
        for name, values in (*zip(places[1:], positional, strict=False), *by_name):
            losses = frozenset(v for v in values if is_probability_loss(self.flow, v))
            if losses:
                self.flow.store.add(frame, name, losses)

    def bind_parameters(self, frame: Frame, given: list[Values], keywords: Mapping[str, Values]) -> None:
        flow = self.flow
        scope = flow.scope(frame)
        places, named, others = self.parameters_of(frame, scope)
        for name, values in zip(places, given, strict=False):
            flow.store.add(frame, name, values)
        rest = given[len(places) :]
        for name in sorted(named & keywords.keys()) if keywords else ():
            flow.store.add(frame, name, keywords[name])
        taken = {*places[: len(given)], *keywords} if others else ()
        for parameter in others:
            if parameter.default is not None and frame.outer is not None and parameter.name not in taken:
                flow.store.add(frame, parameter.name, flow.evaluate(parameter.default, frame.outer))
            if parameter.kind == "star" and rest:
                fields = {f"[{i}]": values for i, values in enumerate(rest)}
                flow.store.add(frame, parameter.name, flow.container((frame.path, scope.span), frame, "*", fields))
            if parameter.kind == "doublestar":
                extra = {f"[{n!r}]": v for n, v in keywords.items() if n not in named}
                flow.store.add(frame, parameter.name, flow.container((frame.path, scope.span), frame, "**", extra))

    def parameters_of(self, frame: Frame, scope: f.Scope) -> _Parameters:
        """Names of those that are given by position, of those that may be given by name, and all that get something
        where nothing, or more, is given."""
        key = (frame.path, frame.scope)
        found = self._parameters.get(key)
        if found is None:
            places = tuple(p.name for p in scope.parameters if p.kind == "positional")
            named = frozenset(p.name for p in scope.parameters if p.kind in ("positional", "keyword"))
            others = tuple(p for p in scope.parameters if p.default is not None or p.kind in ("star", "doublestar"))
            found = self._parameters[key] = (places, named, others)
        return found

    def enter_uncalled(self, path: str, scope: f.Scope) -> None:
        """Evaluates a function nobody in the project calls: its parameters are unknown."""
        flow = self.flow
        assert scope.parent is not None
        for outer in tuple(flow.frames_of.get((path, scope.parent), ())):
            holder = flow.scope(outer)
            if holder.kind == "class" and outer.outer is not None:
                cls = flow.make(ClassValue, path, holder.index, outer.outer)
                receivers = self.receivers(cls)
                functions = [flow.make(FunctionValue, path, scope.index, outer, r) for r in receivers]
            else:
                functions = [flow.make(FunctionValue, path, scope.index, outer, None)]
            for function in functions:
                receiver = function.receiver
                if isinstance(receiver, Instance) and receiver.cls and flow.classes.is_inert(receiver.cls):
                    continue
                self.enter_function(function, scope)

    def enter_function(self, function: FunctionValue, scope: f.Scope) -> None:
        flow = self.flow
        frame = self.flow.contexts.frame(function, None)
        first = 0
        if function.receiver is not None:
            if scope.parameters:
                flow.variables.bind(frame, scope.parameters[0].name, frozenset((function.receiver,)))
            first = 1
        for parameter in scope.parameters[first:]:
            flow.store.add(frame, parameter.name, flow.one(Opaque, frame, parameter.name))
            if parameter.default is not None and frame.outer is not None:
                flow.store.add(frame, parameter.name, flow.evaluate(parameter.default, frame.outer))
        flow.enter(frame)

    def receivers(self, cls: ClassValue) -> list[Value]:
        """Objects a method nobody calls may run on: those of its class or of a derived one, or one made up."""
        flow = self.flow
        heirs = [made for c, made in self.made.items() if c is cls or cls in flow.classes.order(c)]
        known = [instance for made in heirs for instance in made]
        if known:
            return list(ordered(known))
        scope = flow.classes.scope(cls)
        return [flow.make(Instance, (cls.path, scope.span), (), cls, f"{cls.path}:{scope.qualname}")]

    # Objects of the project

    def construct(
        self,
        cls: ClassValue,
        call: f.Call,
        frame: Frame,
        place: Place,
        positional: list[Values],
        keywords: dict[str, Values],
    ) -> Values:
        flow = self.flow
        scope = flow.classes.scope(cls)
        instance = flow.make(Instance, place, frame.sites, cls, f"{cls.path}:{scope.qualname}")
        flow.created.setdefault(instance, (frame, call))
        self.made.setdefault(cls, {})[instance] = None
        if flow.classes.is_optimizer(cls):
            flow.store.add(instance, "params", first(positional, keywords, "params"))
        if flow.classes.is_inert(cls):
            for values in [*positional, *keywords.values()]:
                flow.store.add(instance, "[*]", values)
            return frozenset((instance,))
        init = flow.classes.class_member(cls, "__init__", instance)
        for function in init:
            if isinstance(function, FunctionValue):
                self.invoke(function, positional, keywords, (frame, call))
        if not init:
            self.fields_from_arguments(instance, cls, positional, keywords)
        return frozenset((instance,))

    def fields_from_arguments(
        self, instance: Instance, cls: ClassValue, positional: list[Values], keywords: dict[str, Values]
    ) -> None:
        """A class without `__init__` keeps its arguments (a dataclass, a named tuple), or its base class does."""
        own = [c for c in reversed(self.flow.classes.order(cls)) if isinstance(c, ClassValue)]
        annotated = [name for c in own for s in self.flow.classes.scope(c).body for name in _annotated(s)]
        for name, values in [*zip(annotated, positional, strict=False), *keywords.items()]:
            self.flow.store.add(instance, name, values)
        for index, values in enumerate(positional):
            self.flow.store.add(instance, f"[{index}]", values)

    def call_instance(
        self, instance: Instance, positional: list[Values], keywords: dict[str, Values], at: tuple[Frame, f.Call]
    ) -> Values:
        assert instance.cls is not None
        found = NOTHING
        classes = self.flow.classes
        methods = classes.class_member(instance.cls, "__call__", instance)
        if not methods:
            methods = classes.class_member(instance.cls, "forward", instance)
        for function in methods:
            if isinstance(function, FunctionValue):
                found |= self.invoke(function, positional, keywords, at)
        if classes.is_module(instance.cls) or not methods:
            found |= self.flow.one(Derived, instance)
        return found | flowing(self.flow, positional, keywords)

    def is_module(self, value: Instance) -> bool:
        """Whether an object is a module by its class."""
        if value.cls is not None:
            return self.flow.classes.is_module(value.cls)
        return catalog.is_module_class(value.dotted) or value.dotted in catalog.WRAPS


def _annotated(statement: f.Stmt) -> list[str]:
    """The name that a statement of a class annotates, which makes it a field of a dataclass or named tuple."""
    target: f.Expr | None = None
    if isinstance(statement, f.Assign) and statement.kind == "AnnAssign":
        target = statement.targets[0]
    elif isinstance(statement, f.Simple) and statement.kind == "AnnAssign":
        target = statement.operands[0]
    return [target.id] if isinstance(target, f.Name) else []
