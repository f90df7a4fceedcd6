"""Classes and attributes: method resolution order, fields, methods, and what torch's objects answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ampify import catalog
from ampify.index.given_calls import calls_given, may_give_losses
from ampify.index.syntax import nodes, parts
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
    ModuleValue,
    NoneValue,
    Opaque,
    Parameters,
    State,
    Super,
    Value,
    Values,
)
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.flow import Flow

DEPTH = 12
PLAIN = (f.Name, f.Attribute)
# What an attribute of may be any.
UNKNOWN = (Opaque, Instance)
KEEPING = (Container, State)


class Classes:
    """Answers questions on the classes of the project and on attributes of any value."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._inert: dict[ClassValue, bool] = {}
        self._gives_losses = may_give_losses(flow.files[path] for path in flow.leading)
        self._training: frozenset[str] | None = None
        self._words: dict[tuple[str, int], frozenset[str]] = {}
        self._orders: dict[ClassValue, tuple[Value, ...]] = {}
        # Of classes whose order is kept: whether they are modules.
        self._modules: dict[ClassValue, bool] = {}
        self._frames: dict[ClassValue, Frame] = {}
        # Plain names of the decorators of each function, by its path and number.
        self._decorators: dict[tuple[str, int], frozenset[str]] = {}
        # Attributes of what is outside.
        self._outside: dict[tuple[External, str], Values] = {}

    def settle(self) -> None:
        """Forgets what was kept of classes while the flow was still growing."""
        self._inert.clear()
        self._orders.clear()
        self._modules.clear()

    # Classes

    def frame(self, cls: ClassValue) -> Frame:
        """The frame that a class body ran in; its variables are the class's attributes."""
        frame = self._frames.get(cls)
        if frame is None:
            frame = self._frames[cls] = self.flow.make(Frame, cls.path, cls.scope, (), cls.outer)
        return frame

    def scope(self, cls: ClassValue) -> f.Scope:
        """The scope of a class."""
        return self.flow.files[cls.path].scopes[cls.scope]

    def bases(self, cls: ClassValue) -> tuple[Value, ...]:
        """Classes and external names that a class derives from."""
        found: dict[Value, None] = {}
        for base in self.scope(cls).bases:
            for value in self.flow.evaluate(base, cls.outer):
                if isinstance(value, ClassValue | External):
                    found[value] = None
        return tuple(found)

    def order(self, cls: ClassValue) -> tuple[Value, ...]:
        """The class and all it derives from: depth first, and what several derive from after all of these."""
        known = self._orders.get(cls)
        if known is not None:
            return known
        order = self._order(cls, DEPTH)
        # An order is kept once every base is known; a base that more than one name stands for may still grow.
        if len(self.bases(cls)) >= len(self.scope(cls).bases):
            self._orders[cls] = order
        return order

    def complete(self, cls: ClassValue) -> bool:
        """Whether every class that a class derives from is known by now."""
        own = (c for c in self.order(cls) if isinstance(c, ClassValue))
        return all(len(self.bases(c)) >= len(self.scope(c).bases) for c in own)

    def _order(self, cls: ClassValue, depth: int) -> tuple[Value, ...]:
        found: list[Value] = [cls]
        for base in self.bases(cls) if depth else ():
            found += self._order(base, depth - 1) if isinstance(base, ClassValue) else [base]
        return tuple(dict.fromkeys(reversed(found)))[::-1]

    def external_bases(self, cls: ClassValue) -> tuple[str, ...]:
        """Dotted names of the external classes a class derives from."""
        return tuple(v.dotted for v in self.order(cls) if isinstance(v, External))

    def is_module(self, cls: ClassValue) -> bool:
        """Whether a class derives from `torch.nn.Module`."""
        known = self._modules.get(cls)
        if known is not None:
            return known
        derives = any(
            d in catalog.MODULE_BASES or catalog.is_module_class(d) or d.endswith(("Module", "PreTrainedModel"))
            for d in self.external_bases(cls)
        )
        if cls in self._orders:
            self._modules[cls] = derives
        return derives

    def is_one(self, cls: ClassValue) -> bool:
        """Whether an object of a class is a module that has no elements: nothing says what `model[1]` would be."""
        bases = self.external_bases(cls)
        own = (self.scope(c) for c in self.order(cls) if isinstance(c, ClassValue))
        plain = bool(bases) and all(d.rpartition(".")[2] == "Module" for d in bases)
        return plain and not any(scope.bound & {"__getitem__", "__iter__"} for scope in own)

    def is_inert(self, cls: ClassValue) -> bool:
        """Whether a class is a module whose own code, inherited code included, has nothing to do with training,
        makes nothing of a class that has, and calls no loss that it may be given."""
        if cls not in self._inert:
            own = [c for c in self.order(cls) if isinstance(c, ClassValue)]
            trains = any(self.trains(self.words(c)) or self.words(c) & self.training_classes() for c in own)
            given = self._gives_losses and calls_given([scope for c in own for scope in self.methods(c)])
            self._inert[cls] = self.is_module(cls) and not trains and not given
        return self._inert[cls]

    @staticmethod
    def trains(words: frozenset[str]) -> bool:
        """Whether code that uses these words may train."""
        return bool(words & catalog.TRAINING_WORDS) or any("optim" in word.lower() for word in words)

    def training_classes(self) -> frozenset[str]:
        """Names of the project's classes whose code may train."""
        if self._training is None:
            module = self.flow.module_frame
            self._training = frozenset(
                scope.name
                for path in sorted(self.flow.leading)
                for scope in self.flow.files[path].scopes
                if scope.kind == "class"
                and self.trains(self.words(self.flow.make(ClassValue, path, scope.index, module(path))))
            )
        return self._training

    def words(self, cls: ClassValue) -> frozenset[str]:
        """Names and attributes that the code of a class uses, nested functions included."""
        key = (cls.path, cls.scope)
        if key not in self._words:
            scopes = self.flow.files[cls.path].scopes
            inside = {cls.scope}
            for scope in scopes[cls.scope + 1 :]:
                if scope.parent in inside:
                    inside.add(scope.index)
            bodies = (scopes[index].body for index in inside)
            used = (getattr(n, "id", "") or getattr(n, "attr", "") for body in bodies for n in parts(body))
            self._words[key] = frozenset(used)
        return self._words[key]

    def is_optimizer(self, cls: ClassValue) -> bool:
        """Whether a class derives from an optimizer of torch, and becomes one: a wrapper may derive from it by name
        alone, and have no parameters of its own."""
        derives = any(d in catalog.OPTIMIZER_BASES or catalog.is_optimizer_class(d) for d in self.external_bases(cls))
        return derives and not self._is_hollow(cls)

    def _is_hollow(self, cls: ClassValue) -> bool:
        """Whether the `__init__` of a class neither calls another nor sets `param_groups`, which it does not define."""
        own = [c for c in self.order(cls) if isinstance(c, ClassValue)]
        bodies = {s.name: s for c in reversed(own) for s in self.methods(c)}
        made = bodies.get("__init__")
        if made is None or "param_groups" in bodies:
            return False
        used = (node for node, _ in nodes(made.body) if isinstance(node, f.Attribute))
        return not any(node.attr in ("__init__", "param_groups") for node in used)

    def methods(self, cls: ClassValue) -> list[f.Scope]:
        """The functions that the body of a class defines."""
        scopes = self.flow.files[cls.path].scopes
        return [scopes[s.scope] for s in self.scope(cls).body if isinstance(s, f.Define)]

    def is_fixed(self, owner: Value) -> bool:
        """Whether the fields of an object cannot be set: those of a named tuple, or of a frozen dataclass."""
        if not isinstance(owner, Instance) or owner.cls is None:
            return isinstance(owner, Instance) and owner.dotted == catalog.NAMED_TUPLE
        frozen = (
            name == "frozen" and isinstance(value, f.Constant) and value.value is True
            for cls in self.order(owner.cls)
            for decorator in (self.scope(cls).decorators if isinstance(cls, ClassValue) else ())
            for name, value in (decorator.keywords if isinstance(decorator, f.Call) else ())
        )
        return any(frozen) or any(dotted.endswith("NamedTuple") for dotted in self.external_bases(owner.cls))

    # Attributes

    def attribute(self, owner: Value, name: str, called: bool) -> Values:
        """What `owner.name` may be; `called` asks for methods of external objects as well."""
        flow = self.flow
        match owner:
            case External():
                return self._outside.get((owner, name)) or self.external_member(owner, name)
            case NoneValue():
                return NOTHING
            case ModuleValue():
                return self.module_member(owner, name)
            case ClassValue():
                return self.class_member(owner, name, None) or self.constructor(owner, name)
            case Super():
                after = self.after(owner)
                return self.inherited(after, name, owner.receiver) or (
                    flow.one(Method, owner.receiver, f"super.{name}") if called else NOTHING
                )
            case Instance() if owner.cls is not None:
                return self.instance_member(owner, owner.cls, name, called)
            case Derived():
                if name in catalog.DETACHED_ATTRIBUTES:
                    return NOTHING
                return flow.one(Method, owner, name) if called else frozenset((owner,))
            case Parameters():
                return flow.one(Method, owner, name) if called else frozenset((owner,))
        return self.outside_member(owner, name, called)

    def external_member(self, owner: External, name: str) -> Values:
        if owner.dotted.count(".") >= DEPTH:
            found: Values = frozenset((owner,))
        else:
            found = self.flow.one(External, catalog.canonical(f"{owner.dotted}.{name}"))
        self._outside[owner, name] = found
        return found

    def after(self, owner: Super) -> list[Value]:
        """The classes that `super()` looks into: those that follow its class in the order of the receiver's."""
        receiver = owner.receiver
        cls = receiver.cls if isinstance(receiver, Instance) else receiver
        order = self.order(cls) if isinstance(cls, ClassValue) else ()
        if owner.cls not in order:
            order = self.order(owner.cls)
        return list(order[order.index(owner.cls) + 1 :])

    def module_member(self, owner: ModuleValue, name: str) -> Values:
        frame = self.flow.module_frame(owner.path)
        values = self.flow.variables.lookup(frame, name, None)
        if any(not isinstance(v, External) or v.dotted != name for v in values):
            return values
        submodule = self.flow.modules.find(owner.path, name, 1)
        return self.flow.one(ModuleValue, submodule) if submodule in self.flow.files else values

    def definitions(self, owner: ModuleValue) -> Values:
        """All classes and functions a module binds: what a name that is not known could stand for."""
        frame = self.flow.module_frame(owner.path)
        found = NOTHING
        for name in sorted(self.flow.scope(frame).bound):
            found |= self.flow.store.read(frame, name, self.flow.reader)
        return frozenset(v for v in found if isinstance(v, ClassValue | FunctionValue))

    def class_member(self, cls: ClassValue, name: str, receiver: Value | None) -> Values:
        return self.inherited(self.order(cls), name, receiver, cls)

    def constructor(self, cls: ClassValue, name: str) -> Values:
        """The class itself for a method that makes an object of it, inherited from outside the project."""
        makes = name in catalog.CONSTRUCTOR_METHODS and self.is_module(cls)
        return frozenset((cls,)) if makes else NOTHING

    def inherited(
        self, order: tuple[Value, ...] | list[Value], name: str, receiver: Value | None, cls: ClassValue | None = None
    ) -> Values:
        """An attribute found along a resolution order, bound to the receiver if it is a method."""
        for candidate in order:
            if not isinstance(candidate, ClassValue):
                continue
            values = self.flow.store.read(self.frame(candidate), name, self.flow.reader)
            if values:
                return self.bound(values, receiver, cls or candidate)
        return NOTHING

    def bound(self, values: Values, receiver: Value | None, cls: ClassValue) -> Values:
        found: set[Value] = set()
        for value in values:
            if not isinstance(value, FunctionValue) or value.receiver is not None:
                found.add(value)
                continue
            decorators = self.decorators(value)
            if not decorators and receiver is not None:
                found.add(self.flow.make(FunctionValue, value.path, value.scope, value.outer, receiver))
            elif "staticmethod" in decorators:
                found.add(value)
            elif "classmethod" in decorators:
                found.add(self.flow.make(FunctionValue, value.path, value.scope, value.outer, cls))
            elif receiver is None:
                found.add(value)
            else:
                method = self.flow.make(FunctionValue, value.path, value.scope, value.outer, receiver)
                if decorators & {"property", "cached_property"}:
                    found |= self.flow.calls.read_property(method)
                else:
                    found.add(method)
        return frozenset(found)

    def decorators(self, function: FunctionValue) -> frozenset[str]:
        """Plain names of a function's decorators, last parts only."""
        key = (function.path, function.scope)
        names = self._decorators.get(key)
        if names is None:
            scope = self.flow.files[function.path].scopes[function.scope]
            plain = [d.id if isinstance(d, f.Name) else d.attr for d in scope.decorators if isinstance(d, PLAIN)]
            names = self._decorators[key] = frozenset(plain)
        return names

    def instance_member(self, owner: Instance, cls: ClassValue, name: str, called: bool) -> Values:
        flow = self.flow
        if name == "__class__":
            return frozenset((cls,))
        values = flow.store.read(owner, name, flow.reader)
        inherited = self.class_member(cls, name, owner)
        if values or inherited:
            return values | inherited
        if name == "module" and self.is_module(cls):
            # Read of what is a wrapper by then: before, the same name means what goes into it.
            return frozenset((owner,))
        if called and (flow.opaque_missing or (self.external_bases(cls) and self.complete(cls))):
            return flow.one(Method, owner, name)
        if name == "param_groups" and self.is_optimizer(cls):
            return flow.store.read(owner, "params", flow.reader)
        if flow.opaque_missing:
            return flow.one(Opaque, owner, name)
        if flow.reader is not None:
            flow.missed[flow.reader] = None
        return NOTHING

    def outside_member(self, owner: Value, name: str, called: bool) -> Values:
        """An attribute of something made outside the project, or of something unknown."""
        flow = self.flow
        values = flow.store.read(owner, name, flow.reader) or self.inside_wrap(owner, name)
        if values:
            return values
        if called or isinstance(owner, KEEPING):
            return flow.one(Method, owner, name)
        if name == "param_groups":
            return flow.store.read(owner, "params", flow.reader)
        if isinstance(owner, Instance):
            if owner.dotted in catalog.WRAPS and name == "module":
                return flow.store.read(owner, "wrapped", flow.reader)
            if owner.dotted in catalog.WRAPS and not flow.opaque_missing:
                # What is wrapped may still get it.
                if flow.reader is not None:
                    flow.missed[flow.reader] = None
                return NOTHING
            if catalog.is_module_class(owner.dotted):
                return flow.one(Parameters, owner) if name in ("weight", "bias") else frozenset((owner,))
        if isinstance(owner, UNKNOWN) and depth(owner) < 4:
            return flow.one(Opaque, owner, name)
        return NOTHING

    def inside_wrap(self, owner: Value, name: str) -> Values:
        """An attribute of a wrapped module: a wrapper that has it at all passes it on."""
        if not isinstance(owner, Instance) or owner.dotted not in catalog.WRAPS or name == "module":
            return NOTHING
        wrapped = self.flow.store.read(owner, "wrapped", self.flow.reader)
        inner = [v for v in wrapped if isinstance(v, Instance) and v.cls is not None]
        fields = NOTHING.union(*(self.flow.store.read(v, name, self.flow.reader) for v in inner))
        return fields.union(*(self.class_member(v.cls, name, v) for v in inner if v.cls is not None))


def depth(value: Value) -> int:
    """How many attributes deep an opaque value is; chains are cut, since loops could make them endless."""
    levels = 0
    while isinstance(value, Opaque):
        value = value.of
        levels += 1
    return levels
