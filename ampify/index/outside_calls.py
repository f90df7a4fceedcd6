"""What calls of outside code do to the flow: constructors, functions and methods that the project does not define."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ampify import catalog
from ampify.index.arguments import first, flowing, has_parameters
from ampify.index.builtin_functions import BUILTINS
from ampify.index.containers import container_method
from ampify.index.values import (
    NOTHING,
    Container,
    Derived,
    Frame,
    FunctionValue,
    Instance,
    Method,
    Opaque,
    Parameters,
    Partial,
    Place,
    State,
    Value,
    Values,
    is_amp_handle,
)
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.calls import Calls
    from ampify.index.flow import Flow

# What outside code may call, if it is given it; what keeps what it is given.
CALLED = (FunctionValue, Partial)
KEEPING = (Container, State)


class OutsideCalls:
    """Evaluates calls of what `calls` finds no code for."""

    def __init__(self, flow: Flow, calls: Calls) -> None:
        self.flow = flow
        self.calls = calls
        self._called_back: set[Value] = set()

    def call(
        self, instance: Instance, at: tuple[Frame, f.Call], positional: list[Values], keywords: dict[str, Values]
    ) -> Values:
        """What an object made outside the project returns when it is called."""
        # What such a class made has its name, too, and no call that made a class.
        if instance.dotted == catalog.NAMED_TUPLE and instance in self.flow.created:
            return self.named_tuple(instance, at, positional, keywords)
        found = flowing(self.flow, positional, keywords)
        if catalog.is_loss_class(instance.dotted):
            return found
        for wrapped in self.flow.store.read(instance, "wrapped", self.flow.reader):
            found |= self.flow.one(Derived, wrapped)
        return found | self.flow.one(Derived, instance)

    def named_tuple(
        self, made: Instance, at: tuple[Frame, f.Call], positional: list[Values], keywords: dict[str, Values]
    ) -> Values:
        """A tuple of a class that `namedtuple` made: its fields are named by the strings that this was given."""
        frame, call = at
        _, making = self.flow.created[made]
        given = making.args[1] if len(making.args) > 1 else None
        parts = given.items if isinstance(given, f.Elements) else (given,)
        words = [p.value for p in parts if isinstance(p, f.Constant) and isinstance(p.value, str)]
        names = [name for word in words for name in word.replace(",", " ").split()]
        instance = self.flow.make(Instance, (frame.path, call.span), frame.sites, None, catalog.NAMED_TUPLE)
        for name, values in [*zip(names, positional, strict=False), *keywords.items()]:
            self.flow.store.add(instance, name, values)
            self.flow.store.add(instance, f"[{names.index(name)}]" if name in names else "[*]", values)
        return frozenset((instance,))

    def external(
        self,
        dotted: str,
        call: f.Call,
        frame: Frame,
        place: Place,
        positional: list[Values],
        keywords: dict[str, Values],
    ) -> Values:
        flow = self.flow
        if dotted in BUILTINS:
            return BUILTINS[dotted](self.calls, call, frame, place, positional, keywords)
        if dotted in catalog.SPAWNERS:
            self.spawn(dotted, call, frame, positional, keywords)
        if dotted in catalog.SAME_MODULE | catalog.HALVED or dotted.endswith((".scale_loss",)):
            return first(positional, keywords, "module")
        if dotted.endswith("amp.initialize"):
            return self.initialized(frame, place, positional, keywords)
        for values in [*positional, *keywords.values()]:
            self.callback(values, frame, call)
        if catalog.is_plain(dotted):
            return flowing(flow, positional, keywords)
        instance = flow.make(Instance, place, frame.sites, None, dotted)
        flow.created.setdefault(instance, (frame, call))
        if dotted in catalog.NAMESPACES:
            for name, values in keywords.items():
                flow.store.add(instance, name, values)
        if dotted in catalog.WRAPS:
            flow.store.add(instance, "wrapped", first(positional, keywords, "module"))
        if catalog.is_optimizer_class(dotted) or has_parameters(positional, keywords):
            flow.store.add(instance, "params", first(positional, keywords, "params"))
        if dotted.endswith("amp.master_params"):
            # A part of this itself, too, which tells it from the model's own.
            steps = self.stepped(first(positional, keywords, "optimizer"))
            flow.store.add(instance, "[*]", steps | flow.one(Opaque, instance, "[*]"))
        if catalog.is_module_class(dotted):
            for values in [*positional, *keywords.values()]:
                flow.store.add(instance, "[*]", values)
        carried = flowing(self.flow, positional, keywords)
        made = catalog.is_optimizer_class(dotted) or dotted.startswith(catalog.TORCH_AMP)
        if carried and dotted.startswith("torch.") and not made:
            return carried if dotted not in catalog.WRAPS else frozenset((instance,))
        return frozenset((instance,)) | frozenset(v for v in carried if isinstance(v, Derived))

    def stepped(self, optimizers: Values) -> Values:
        """The parameters in an optimizer's groups."""
        groups = self.flow.elements(self.flow.attribute(optimizers, "param_groups", called=False))
        return self.flow.elements(self.flow.element(groups, "['params']"))

    def initialized(self, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]) -> Values:
        """`amp.initialize` returns what it is given, in the same shape."""
        models = first(positional, keywords, "models")
        optimizers = positional[1] if len(positional) > 1 else keywords.get("optimizers", NOTHING)
        if not optimizers:
            return models
        return self.flow.container(place, frame, "", {"[0]": models, "[1]": optimizers})

    def callback(self, values: Values, frame: Frame, call: f.Call) -> None:
        """A function handed to outside code may be called there, with arguments unknown."""
        for value in values:
            if isinstance(value, CALLED) and value not in self._called_back:
                # A partial may hold itself, by way of a name that is bound again.
                self._called_back.add(value)
                self.calls.apply(value, call, frame, (frame.path, call.span), [], {})
                self._called_back.discard(value)

    def spawn(
        self, dotted: str, call: f.Call, frame: Frame, positional: list[Values], keywords: dict[str, Values]
    ) -> None:
        function, arguments, skipped = catalog.SPAWNERS[dotted]
        targets = first(positional, keywords, function)
        packed = keywords.get(arguments) or (positional[1] if len(positional) > 1 else NOTHING)
        count = self.calls.spread(packed) if packed else 0
        given = [NOTHING] * skipped + [self.flow.element(packed, f"[{i}]") for i in range(count)]
        for target in targets:
            if isinstance(target, CALLED):
                self.calls.apply(target, call, frame, (frame.path, call.span), given, {})

    def method(
        self,
        method: Method,
        call: f.Call,
        frame: Frame,
        place: Place,
        positional: list[Values],
        keywords: dict[str, Values],
    ) -> Values:
        """A method that the project does not define."""
        flow, owner, name = self.flow, method.of, method.name
        if name in catalog.PARAMETER_METHODS and not isinstance(owner, Container | Derived):
            return flow.one(Parameters, owner.of if isinstance(owner, Parameters) else owner)
        if isinstance(owner, KEEPING) or name in ("items", "values", "keys"):
            return container_method(flow, owner, name, call, frame, place, positional, keywords)
        if isinstance(owner, Derived):
            carried = flowing(self.flow, positional, keywords)
            return carried if name in catalog.DETACHING_METHODS else carried | frozenset((owner,))
        if isinstance(owner, Parameters):
            return frozenset((owner,)) | flowing(self.flow, positional, keywords)
        if name == "wrap_optimizer" and is_amp_handle(owner):
            return first(positional, keywords, "optimizer")
        if name in catalog.SAME_OBJECT_METHODS:
            return frozenset((owner,))
        if name == "state_dict":
            return flow.one(State, owner)
        if name in ("forward", "__call__"):
            return self.calls.apply(owner, call, frame, place, positional, keywords)
        if name == "add_param_group":
            flow.store.add(owner, "params", first(positional, keywords, "param_group"))
        if name == "super.__init__" and isinstance(owner, Instance) and owner.cls is not None:
            self.inherited_init(owner, positional, keywords)
        if name in ("add_module", "register_module") and len(positional) > 1:
            flow.store.add(owner, "[*]", positional[1])
        for values in [*positional, *keywords.values()]:
            self.callback(values, frame, call)
        carried = flowing(self.flow, positional, keywords)
        result = flow.make(Instance, place, frame.sites, None, f".{name}")
        flow.created.setdefault(result, (frame, call))
        if has_parameters(positional, keywords):
            flow.store.add(result, "params", first(positional, keywords, "params"))
        if isinstance(owner, Opaque) or (isinstance(owner, Instance) and self.calls.is_module(owner)):
            carried |= flow.one(Derived, owner)
        return carried | frozenset((result,))

    def inherited_init(self, owner: Instance, positional: list[Values], keywords: dict[str, Values]) -> None:
        assert owner.cls is not None
        if self.flow.classes.is_optimizer(owner.cls):
            self.flow.store.add(owner, "params", first(positional, keywords, "params"))
        for index, values in enumerate(positional):
            self.flow.store.add(owner, f"[{index}]", values)
