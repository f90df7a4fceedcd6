"""What the objects of the flow are to training: optimizers, modules, and which optimizer trains which module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from ampify import catalog
from ampify.index.autograd_methods import frames_in
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.values import (
    ClassValue,
    Container,
    Derived,
    External,
    Instance,
    Opaque,
    Parameters,
    Value,
    Values,
    ordered,
)
from ampify.model import facts as f


class Entities:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._owners: dict[Value, frozenset[Value]] = {}
        self._holders = self._find_holders()

    # Optimizers

    def is_optimizer(self, value: Value) -> bool:
        """Whether a value is certainly an optimizer of torch."""
        if not isinstance(value, Instance):
            return False
        if value.cls is not None:
            return self.flow.classes.is_optimizer(value.cls)
        return catalog.is_optimizer_class(value.dotted)

    def has_masters(self, value: Value) -> bool:
        """Whether a value is an optimizer that keeps master parameters itself, and scales by its own backward."""
        return isinstance(value, Instance) and value.dotted in catalog.MASTER_OPTIMIZERS

    def optimizers(self, values: Values) -> tuple[Value, ...]:
        """The optimizers among values, in order of creation; those in a list count too."""
        found = {v for v in values if self.is_optimizer(v)}
        for value in values:
            if isinstance(value, Container):
                found.update(v for v in self.flow.elements(frozenset((value,))) if self.is_optimizer(v))
        return tuple(ordered(found))

    def trained(self, optimizer: Value) -> frozenset[Value]:
        """The outermost modules whose parameters an optimizer was given; empty if that is not known."""
        if optimizer not in self._owners:
            owners: set[Value] = set()
            for module in self.owners(optimizer):
                owners |= self.outermost(module)
            # An attribute of what is not known is a part of it where the whole has its parameters there, too.
            self._owners[optimizer] = frozenset(o for o in owners if owners.isdisjoint(wholes(o)))
        return self._owners[optimizer]

    def owners(self, optimizer: Value) -> frozenset[Value]:
        """The modules whose parameters, or some of them, an optimizer was given."""
        return frozenset(self._parameter_owners(self.flow.store.read(optimizer, "params", None), set()))

    def share(self, one: Value, other: Value) -> bool:
        """Whether two optimizers may have been given the same parameters."""
        ours, theirs = self.owners(one), self.owners(other)
        whole = any(a in self.outermost(b) for a, b in (*product(ours, theirs), *product(theirs, ours)))
        return bool(ours & theirs) or whole

    def _parameter_owners(self, values: Values, seen: set[Value]) -> set[Value]:
        found: set[Value] = set()
        for value in values:
            if value in seen:
                continue
            seen.add(value)
            if isinstance(value, Parameters):
                found |= self.unwrapped(value.of)
            elif isinstance(value, Container):
                found |= self._parameter_owners(self.flow.elements(frozenset((value,))), seen)
            elif isinstance(value, Instance) and self.is_module(value):
                found |= self.unwrapped(value)
            elif isinstance(value, Instance) and self.is_optimizer(value):
                found |= self._parameter_owners(self.flow.store.read(value, "params", None), seen)
        return found

    # Functions

    def differentiates(self, path: str, scope: f.Scope) -> bool:
        """Whether a function is the `backward` of a `torch.autograd.Function` of the project's: autograd calls it, with
        gradients that are scaled already if the loss is."""
        around = self.flow.files[path].scopes[scope.parent] if scope.parent is not None else None
        if around is None or around.kind != "class" or scope.name != "backward":
            return False
        classes = (self.flow.make(ClassValue, path, around.index, o) for o in frames_in(self.flow, path, around.parent))
        return any(catalog.AUTOGRAD_BASES.intersection(self.flow.classes.external_bases(cls)) for cls in classes)

    # Modules

    def is_module(self, value: Value) -> bool:
        """Whether a value is a module of torch by its class."""
        if not isinstance(value, Instance):
            return False
        if value.cls is not None:
            return self.flow.classes.is_module(value.cls)
        return catalog.is_module_class(value.dotted) or value.dotted in catalog.WRAPS

    def is_wrap(self, value: Value) -> bool:
        """Whether a value is a parallel wrapper around a module."""
        return isinstance(value, Instance) and value.dotted in catalog.WRAPS

    def unwrapped(self, value: Value) -> frozenset[Value]:
        """The modules inside parallel wrappers; anything else is itself."""
        found: set[Value] = set()
        stack, seen = [value], set()
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            if isinstance(current, Parameters):
                stack.append(current.of)
            elif self.is_wrap(current) and (inside := self.wrapped(current)):
                stack.extend(inside)
            elif isinstance(current, Opaque) and current.name == "module":
                stack.append(current.of)
            elif not isinstance(current, External):
                found.add(current)
        return frozenset(found)

    def wrapped(self, wrap: Value) -> Values:
        """What a parallel wrapper was given, if anything is known of it."""
        given = self.flow.store.read(wrap, "wrapped", None)
        return frozenset(v for v in given if v is not wrap and not isinstance(v, External))

    def outermost(self, module: Value) -> frozenset[Value]:
        """The modules that hold `module` as a part and are no part themselves."""
        found: set[Value] = set()
        stack, seen = [module], set()
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            if isinstance(current, Instance) and self.trains(current):
                found.add(current)
                continue
            holders = self._holders.get(current, frozenset())
            if isinstance(current, Opaque) and self.is_module(root(current)):
                holders |= self.unwrapped(root(current))
            if holders - seen:
                stack.extend(holders)
            elif not holders:
                found.add(current)
        return frozenset(found or {module})

    def around(self, module: Value) -> frozenset[Value]:
        """A module and all that hold it, directly or not."""
        found: set[Value] = set()
        stack = [module]
        while stack:
            current = stack.pop()
            if current not in found:
                found.add(current)
                stack += [*self._holders.get(current, ()), *wholes(current)]
        return frozenset(found)

    def modules(self, values: Values) -> frozenset[Value]:
        """The outermost modules behind values: modules themselves, their parameters, tensors computed by them."""
        found: set[Value] = set()
        for value in values:
            if isinstance(value, Parameters | Derived):
                value = value.of
            for inner in self.unwrapped(value):
                if isinstance(inner, Instance | Opaque):
                    found |= self.outermost(inner)
        return frozenset(found)

    def source(self, values: Iterable[Value]) -> frozenset[Value]:
        """The modules that a loss comes from, as far as that is known: by what they compute, or by their parameters."""
        return self.modules(frozenset(v for v in values if isinstance(v, Derived | Parameters)))

    def reached(self, backward: Event) -> frozenset[Value]:
        """The optimizers a backward feeds, less those whose modules its loss is known not to come from."""
        fed = frozenset(backward.feeds)
        source = self.source(backward.values)
        unknown = not source or any(not self.trained(o) for o in fed)
        reached = frozenset(o for o in fed if self.trained(o) & source)
        return fed if unknown or not reached else reached

    def _find_holders(self) -> dict[Value, frozenset[Value]]:
        """Which modules have which objects in their fields. A class that owns an optimizer trains: it is no module."""
        found: dict[Value, set[Value]] = {}
        for holder in self.flow.created:
            if not self.is_module(holder) or self.is_wrap(holder) or self.trains(holder):
                continue
            for name in self.flow.store.fields(holder):
                if name == "params":
                    continue
                for value in self._contained(self.flow.store.read(holder, name, None)):
                    if isinstance(value, Instance) and value is not holder:
                        found.setdefault(value, set()).add(holder)
        return {value: frozenset(holders) for value, holders in found.items()}

    def trains(self, holder: Value) -> bool:
        """Whether an object owns an optimizer: it trains, whatever else it is, and is no part of another module."""
        return any(
            self.optimizers(self.flow.store.read(holder, name, None))
            for name in self.flow.store.fields(holder)
            if name != "params"
        )

    def parts(self, holder: Value) -> frozenset[Value]:
        """The modules in the fields of an object."""
        names = (name for name in self.flow.store.fields(holder) if name != "params")
        held = (value for name in names for value in self._contained(self.flow.store.read(holder, name, None)))
        return frozenset(value for value in held if self.is_module(value) and value is not holder)

    def _contained(self, values: Values) -> set[Value]:
        found: set[Value] = set()
        for value in values:
            found.add(value)
            if isinstance(value, Container):
                found |= self.flow.elements(frozenset((value,)))
        return found


def wholes(value: Value) -> Iterator[Value]:
    """What a value whose trail has ended is an attribute of, from the inside out."""
    while isinstance(value, Opaque):
        value = value.of
        yield value


def root(value: Value) -> Value:
    """What a value whose trail has ended belongs to, in the end."""
    return [value, *wholes(value)][-1]
