"""Recognizes the events of training in the code of one frame: what an expression does to gradients and to state."""

from __future__ import annotations

from collections.abc import Iterator

from ampify import catalog
from ampify.index.apex_older import by_handle
from ampify.index.autocasts import scalers
from ampify.index.entities import Entities
from ampify.index.events import Event, EventKind
from ampify.index.flow import Flow
from ampify.index.penalties import is_penalty
from ampify.index.probability_calls import has_others, is_probability_loss
from ampify.index.renamed import takes
from ampify.index.renamed_clips import is_clip, kept_parameters
from ampify.index.steps import Steps
from ampify.index.syntax import expressions, first_argument, gathered, in_order, is_false, last_name, statements
from ampify.index.values import (
    LISTS,
    NOTHING,
    Container,
    Derived,
    External,
    Frame,
    FunctionValue,
    Instance,
    NoneValue,
    Opaque,
    Parameters,
    Place,
    State,
    Value,
    Values,
    is_masters,
    ordered,
)
from ampify.index.words import FOREIGN, NAMES, PRECISIONS, aliases, buffers
from ampify.model import facts as f


class Classifier:
    """Events of every frame, found once."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.entities = Entities(flow)
        self.steps = Steps(flow, self.entities)
        self._targets: dict[tuple[Frame, f.Span], dict[Frame, None]] = {}
        for callee, sites in flow.callers.items():
            for caller, span in sites:
                self._targets.setdefault((caller, span), {})[callee] = None
        self._optimizers = tuple(v for v in flow.created if self.entities.is_optimizer(v))
        self.trained = frozenset(m for o in self._optimizers for m in self.entities.trained(o))
        self._places: dict[Place, list[Instance]] = {}
        for instance in flow.created:
            if instance in self.trained or self.entities.is_optimizer(instance):
                self._places.setdefault(instance.place, []).append(instance)
        self._aliases = {path: dict(aliases(facts)) for path, facts in flow.files.items()}
        self._buffers = frozenset(name for facts in flow.files.values() for name in buffers(facts))
        self._has_renamed_clips = takes(flow, catalog.CLIPS)
        self._has_renamed = self._has_renamed_clips or has_others(flow)
        self._candidates: dict[tuple[str, int], tuple[f.Expr, ...]] = {}
        self._found: dict[Frame, dict[int, list[Event]]] = {}
        self._loud = self._find_loud()

    def loud(self, frame: Frame) -> bool:
        """Whether running a frame, or anything it calls, makes an event."""
        return frame in self._loud

    def targets(self, call: f.Call | f.Attribute, frame: Frame) -> tuple[Frame, ...]:
        """The frames that a call enters."""
        return tuple(self._targets.get((frame, call.span), ()))

    def events(self, node: f.Expr, frame: Frame) -> list[Event]:
        """What an expression itself does, its parts apart; stack and state are for the trace to fill in."""
        if frame not in self._found:
            found: dict[int, list[Event]] = {}
            for candidate in self.candidates(frame):
                events = list(self._events(candidate, frame))
                if events:
                    found[id(candidate)] = events
            self._found[frame] = found
        return self._found[frame].get(id(node), [])

    def scales(self, context: f.Expr, frame: Frame) -> bool:
        """Whether a `with` item is our `amp.scale_loss(...)`, or that where a condition holds."""
        if isinstance(context, f.Operation) and context.kind == "IfExp":
            return any(self.scales(operand, frame) for operand in context.operands)
        if not isinstance(context, f.Call):
            return False
        return by_handle(context.func, frame, self.flow, self.entities) or any(
            isinstance(v, External) and v.dotted.endswith("amp.scale_loss")
            for v in self.flow.evaluate(context.func, frame)
        )

    def candidates(self, frame: Frame) -> tuple[f.Expr, ...]:
        """Expressions of a frame's scope that could be events, by their names."""
        key = (frame.path, frame.scope)
        if key not in self._candidates:
            self._candidates[key] = tuple(self._find_candidates(frame))
        return self._candidates[key]

    def _find_candidates(self, frame: Frame) -> Iterator[f.Expr]:
        for statement in statements(self.flow.scope(frame).body):
            for expression in expressions(statement):
                for node, _ in in_order(expression):
                    if self._candidate(node, frame.path):
                        yield node

    def _candidate(self, node: f.Expr, path: str) -> bool:
        match node:
            case f.Attribute():
                return node.attr == "grad"
            case f.Mapping():
                return True
            case f.Comprehension():
                return node.kind == "DictComp"
            case f.Call():
                return self._has_renamed or self.name(node.func, path) in NAMES or (path, node.span) in self._places
        return False

    def name(self, function: f.Expr, path: str) -> str:
        """The last part of a function's name, under its own name where a file imports it as another."""
        name = last_name(function)
        return self._aliases[path].get(name, name) if isinstance(function, f.Name) else name

    def _find_loud(self) -> frozenset[Frame]:
        # A flow whose budget ran out meets new frames when asked.
        loud = {frame for frame in tuple(self.flow.frames) if self._is_loud(frame)}
        stack = list(loud)
        while stack:
            for caller, _ in self.flow.callers.get(stack.pop(), ()):
                if caller not in loud:
                    loud.add(caller)
                    stack.append(caller)
        return frozenset(loud)

    def _is_loud(self, frame: Frame) -> bool:
        self.events(f.Constant((1, 0, 1, 0), None), frame)
        return any(e.kind not in ("move",) or e.values for events in self._found[frame].values() for e in events)

    # Recognition

    def _events(self, node: f.Expr, frame: Frame) -> Iterator[Event]:
        match node:
            case f.Attribute():
                yield from self._gradient(node, frame)
            case f.Mapping():
                states = self._states(node.values, frame)
                if states:
                    yield self._event("save", node, frame, states, "dict")
            case f.Comprehension():
                states = self._states((node,), frame)
                if states:
                    yield self._event("save", node, frame, states, "each")
            case f.Call():
                built = [i for i in self._places.get((frame.path, node.span), ()) if i.sites == frame.sites]
                if built:
                    yield self._event("build", node, frame, tuple(built))
                yield from self._call(node, frame)

    def first(self, call: f.Call, frame: Frame) -> Values:
        """What a call is given first."""
        argument = first_argument(call)
        return self.flow.evaluate(argument, frame) if argument is not None else NOTHING

    def _event(
        self, kind: EventKind, node: f.Expr, frame: Frame, values: tuple[Value, ...] = (), detail: str = ""
    ) -> Event:
        anchor = self.flow.files[frame.path].anchor(node)
        nothing = f.Simple(node.span, "Pass", ())
        return Event(kind, node, anchor, frame, nothing, (), frozenset(), 0, 0, values, detail=detail)

    def _gradient(self, node: f.Attribute, frame: Frame) -> Iterator[Event]:
        owners = frozenset(o for o in self.flow.evaluate(node.value, frame) if not isinstance(o, NoneValue))
        if any(isinstance(o, External) for o in owners):
            return
        parameters = any(self._is_parameter(o) for o in owners)
        yield self._event("grad_read", node, frame, tuple(owners), "parameter" if parameters else "other")

    def _is_parameter(self, value: Value) -> bool:
        if isinstance(value, Parameters):
            return True
        if isinstance(value, Instance) and value.dotted in catalog.PARAMETER_CLASSES:
            return True
        return isinstance(value, Opaque) and (self.entities.is_module(value.of) or self._is_parameter(value.of))

    def _states(self, values: tuple[f.Expr, ...], frame: Frame) -> tuple[Value, ...]:
        """Optimizers whose state is among these expressions, or in lists and the like among them."""
        parts = (part for value in values for part in gathered(value))
        states = (state for part in parts for state in self.flow.evaluate(part, frame))
        return tuple(s.of for s in states if isinstance(s, State) and self.entities.is_optimizer(s.of))

    def _listed_states(self, expr: f.Expr, frame: Frame) -> tuple[Value, ...]:
        """Optimizers whose state an expression is, or has among its elements if it is a list."""
        lists = frozenset(v for v in self.flow.evaluate(expr, frame) if isinstance(v, Container) and v.part in LISTS)
        inside = (s.of for s in ordered(self.flow.elements(lists)) if isinstance(s, State))
        return self._states((expr,), frame) or tuple(o for o in inside if self.entities.is_optimizer(o))

    def _call(self, node: f.Call, frame: Frame) -> Iterator[Event]:
        callees = self.flow.calls.callee(node, frame)
        name = self.name(node.func, frame.path)
        receivers = self.flow.evaluate(node.func.value, frame) if isinstance(node.func, f.Attribute) else NOTHING
        inside = any(isinstance(c, FunctionValue) for c in callees)
        handler = HANDLERS.get(name)
        if handler is not None:
            yield from handler(self, node, frame, receivers, callees, inside)
        if self._has_renamed_clips and name not in catalog.CLIPS:
            yield from self._renamed_clip(node, frame, callees)
        for callee in callees:
            if isinstance(callee, External):
                yield from self._external(callee.dotted, node, frame)
        if any(is_probability_loss(self.flow, callee) for callee in callees):
            yield self._event("cross_entropy", node, frame)

    def _external(self, dotted: str, node: f.Call, frame: Frame) -> Iterator[Event]:
        arguments = self.first(node, frame)
        if dotted in catalog.GRADIENT_FUNCTIONS:
            penalty = is_penalty(node, frame, self.flow)
            yield self._event("autograd_grad", node, frame, (), "penalty" if penalty else "")
        elif dotted in catalog.WRAPS:
            modules = self.entities.modules(arguments)
            yield self._event("wrap", node, frame, tuple(ordered(modules)))
        elif dotted.startswith(catalog.SHARDING_PACKAGES) and dotted.rpartition(".")[2] in catalog.SHARDING:
            yield self._event("shard", node, frame, (), dotted.rpartition(".")[2])
        elif dotted in catalog.SAME_MODULE:
            yield self._event("move", node, frame, tuple(ordered(self.entities.modules(arguments))))
        elif dotted in catalog.HALVED:
            yield self._event("half", node, frame, tuple(ordered(self.entities.modules(arguments))))
        elif dotted == "dict":
            states = self._states(tuple(value for _, value in node.keywords), frame)
            if states:
                yield self._event("save", node, frame, states, "call")
            elif states := self._states(node.args, frame):
                yield self._event("save", node, frame, states, "each")
        elif dotted == "torch.save" and (saved := first_argument(node)) is not None:
            # A dict that is made of states is told of by itself.
            states = () if saved.kind == "DictComp" else self._listed_states(saved, frame)
            if states:
                yield self._event("save", node, frame, states, "alone")
            elif any(isinstance(v, State) for v in arguments):
                owners = frozenset(v.of for v in arguments if isinstance(v, State))
                yield self._event("save", node, frame, tuple(ordered(self.entities.modules(owners))), "model")
        elif dotted.endswith("ampify_runtime.amp.initialize"):
            given = [self.flow.evaluate(a, frame) for a in (*node.args, *(v for _, v in node.keywords))]
            everything = frozenset().union(*given) if given else NOTHING
            yield self._event("initialize", node, frame, self.entities.optimizers(everything))
        elif dotted == catalog.OLDER_AMP:
            yield self._event("older_amp", node, frame)
        elif dotted.rpartition(".")[2] == "GradScaler":
            yield self._event("scaler", node, frame)
        elif dotted.rpartition(".")[2] == "optimizer_step":
            yield self._event("unknown_step", node, frame, (), dotted)

    # Methods, by name

    def _backward(
        self, node: f.Call, frame: Frame, receivers: Values, callees: Values, inside: bool
    ) -> Iterator[Event]:
        if self.entities.differentiates(frame.path, self.flow.scope(frame)):
            return
        if any(isinstance(c, External) and c.dotted in catalog.BACKWARD_FUNCTIONS for c in callees):
            tensors = self.first(node, frame)
            yield self._event("backward", node, frame, tuple(tensors), "function")
        elif any(map(self.entities.has_masters, receivers)) and node.args:
            tensors = self.flow.evaluate(node.args[0], frame)
            yield self._event("backward", node, frame, tuple(tensors), "masters")
        elif isinstance(node.func, f.Attribute) and not inside:
            foreign = self._foreign(node, receivers)
            yield self._event("backward", node, frame, tuple(receivers), "foreign" if foreign else "method")
        if any(name == "create_graph" and not is_false(value) for name, value in node.keywords):
            yield self._event("autograd_grad", node, frame)
        elif isinstance(node.func, f.Attribute) and node.args:
            yield self._event("backward_call", node, frame)

    def _hook(self, node: f.Call, frame: Frame, receivers: Values, callees: Values, inside: bool) -> Iterator[Event]:
        if not inside:
            yield self._event("hook", node, frame, tuple(receivers))

    def _foreign(self, node: f.Call, receivers: Values) -> bool:
        """Whether `x.backward(...)` is some object's own idea of a backward, not a tensor's."""
        assert isinstance(node.func, f.Attribute)
        name = last_name(node.func.value).lower()
        if any(self.entities.is_optimizer(r) or isinstance(r, External) for r in receivers):
            return True
        tensor = any(isinstance(r, Derived) for r in receivers)
        return bool(node.args) and not tensor and any(word in name for word in FOREIGN)

    def _step(self, node: f.Call, frame: Frame, receivers: Values, callees: Values, inside: bool) -> Iterator[Event]:
        for kind, values, detail in self.steps.of(node, frame, receivers, inside=inside):
            yield self._event(kind, node, frame, values, detail)

    def _zero_grad(
        self, node: f.Call, frame: Frame, receivers: Values, callees: Values, inside: bool
    ) -> Iterator[Event]:
        if inside:
            return
        optimizers = set(self.entities.optimizers(receivers))
        modules = frozenset(m for r in receivers for m in self.entities.unwrapped(r))
        for optimizer in self._optimizers:
            trained = self.entities.trained(optimizer)
            if trained and trained <= modules:
                optimizers.add(optimizer)
        yield self._event("zero_grad", node, frame, tuple(ordered(frozenset(optimizers))))

    def _clip(self, node: f.Call, frame: Frame, receivers: Values, callees: Values, inside: bool) -> Iterator[Event]:
        if not inside and first_argument(node) is not None:
            yield self._clip_of(self.first(node, frame), node, frame)

    def _clip_of(self, values: Values, node: f.Call, frame: Frame) -> Event:
        master = any(map(is_masters, values))
        return self._event("clip", node, frame, tuple(values), "master" if master else "")

    def _renamed_clip(self, node: f.Call, frame: Frame, callees: Values) -> Iterator[Event]:
        clipping = [callee for callee in ordered(callees) if is_clip(callee)]
        if clipping:
            kept = kept_parameters(self.flow, clipping[0])
            yield self._clip_of(self.first(node, frame) if kept is None else kept, node, frame)

    def _clip_masters(
        self, node: f.Call, frame: Frame, receivers: Values, callees: Values, inside: bool
    ) -> Iterator[Event]:
        if any(map(self.entities.has_masters, receivers)):
            yield self._event("clip", node, frame, (), "masters")

    def _state_dict(
        self, node: f.Call, frame: Frame, receivers: Values, callees: Values, inside: bool
    ) -> Iterator[Event]:
        optimizers = self.entities.optimizers(receivers)
        yield from self._of_scaler("scaler_save", node, frame, receivers)
        if optimizers:
            yield self._event("save", node, frame, optimizers, "state")

    def _load_state_dict(
        self, node: f.Call, frame: Frame, receivers: Values, callees: Values, inside: bool
    ) -> Iterator[Event]:
        optimizers = self.entities.optimizers(receivers)
        yield from self._of_scaler("scaler_load", node, frame, receivers)
        if optimizers:
            yield self._event("load", node, frame, optimizers)

    def _of_scaler(self, kind: EventKind, node: f.Call, frame: Frame, receivers: Values) -> Iterator[Event]:
        """What is done to a GradScaler, and the optimizers it is given."""
        found = scalers(receivers)
        if found:
            given = self.first(node, frame)
            yield self._event(kind, node, frame, (*found, *self.entities.optimizers(given)))

    def _rescale(self, node: f.Call, frame: Frame, receivers: Values, callees: Values, inside: bool) -> Iterator[Event]:
        yield from self._of_scaler("update" if last_name(node.func) == "update" else "unscale", node, frame, receivers)

    def _move(self, node: f.Call, frame: Frame, receivers: Values, callees: Values, inside: bool) -> Iterator[Event]:
        if inside:
            return
        # What converts a tensor, a parameter's too, makes another one.
        tensors = all(isinstance(r, Derived | Parameters) for r in receivers)
        modules = self._moved(receivers) & self.trained if receivers and not tensors else frozenset()
        if modules and not any(isinstance(r, Derived) for r in receivers):
            yield self._event("move", node, frame, tuple(ordered(modules)))
        kind = self._precision(node, frame)
        if kind == "half" or (kind == "double" and modules):
            yield self._event(kind, node, frame, tuple(ordered(modules)))

    def _moved(self, receivers: Values) -> frozenset[Value]:
        """The modules that a conversion of receivers concerns; a tensor that a module keeps is not the module."""
        kept = frozenset(r for r in receivers if not isinstance(r, Instance) or self.entities.is_module(r))
        kept -= frozenset(r for r in kept if isinstance(r, Opaque) and r.name in self._buffers)
        # A trainer that is a module itself takes along what it trains.
        parts = frozenset(part for r in kept if self.entities.trains(r) for part in self.entities.parts(r))
        others = frozenset(r for r in receivers - kept if not isinstance(r, Opaque))
        return self.entities.modules(kept | parts) | others

    def _precision(self, node: f.Call, frame: Frame) -> EventKind | None:
        """What a conversion converts to, if it is told by a method's name or by a dtype among the arguments."""
        method = PRECISIONS.get(last_name(node.func))
        if method is not None:
            return method
        given = (v for a in (*node.args, *(v for _, v in node.keywords)) for v in self.flow.evaluate(a, frame))
        found = (PRECISIONS.get(v.dotted.rpartition(".")[2]) for v in given if isinstance(v, External))
        return next((kind for kind in found if kind is not None), None)


HANDLERS = {
    "backward": Classifier._backward,
    "step": Classifier._step,
    "zero_grad": Classifier._zero_grad,
    "unscale_": Classifier._rescale,
    "update": Classifier._rescale,
    "state_dict": Classifier._state_dict,
    "load_state_dict": Classifier._load_state_dict,
    **dict.fromkeys(catalog.CLIPS, Classifier._clip),
    "clip_master_grads": Classifier._clip_masters,
    **dict.fromkeys(catalog.GRADIENT_HOOKS, Classifier._hook),
    **dict.fromkeys((*catalog.DEVICE_METHODS, "half", "bfloat16"), Classifier._move),
}
