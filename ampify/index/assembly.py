"""Assembles one training loop from its events: what each site is, and how the code there names what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from ampify.index import obstacles as find
from ampify.index.apex_leaving import leaving_apex
from ampify.index.apex_older import of_older, older_parts, on_apex
from ampify.index.autograd_functions import AutogradFunctions
from ampify.index.clips import Clips
from ampify.index.events import Event, at_places
from ampify.index.flow import Flow
from ampify.index.guards import Guard, Guards
from ampify.index.initializing import NOT_FOUND, NOWHERE, Initializing
from ampify.index.masters_leaving import leaving_masters, told
from ampify.index.moments import Spot
from ampify.index.scaling import Parts, Scalings
from ampify.index.states import States
from ampify.index.strays import DOUBTS, Doubt, Strays
from ampify.index.switches import Switches, needs_amp
from ampify.index.syntax import first_argument, path_to
from ampify.index.torch_amp import TorchAmp
from ampify.index.trace import Trace
from ampify.index.values import Derived, Frame, Opaque, Value, ordered
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.apex_loop import ApexLoop
from ampify.model.native import NativeAmp
from ampify.model.project import (
    BackwardCall,
    BinaryCrossEntropy,
    ClipCall,
    Initialize,
    Obstacle,
    TrainingLoop,
)
from ampify.model.settings import Target

Loops: TypeAlias = frozenset[tuple[Frame, f.Span]]

SCALED_NAMES = ("scaled_loss", "amp_scaled_loss", "ampify_scaled_loss")


_MASTERS: Final = "it is of what the optimizer steps, which may be master parameters that the script keeps by itself"
_MASTERS_HINT: Final = (
    "build the optimizer of model.parameters(), and take out the script's own copies and loss scale: amp keeps both"
)


class Assembly:
    """Builds loops; holds what they share."""

    def __init__(self, flow: Flow, trace: Trace, target: Target = "runtime") -> None:
        self.flow = flow
        self.trace = trace
        self.entities = trace.classify.entities
        self.steps = self.steps_of(trace.events)
        self.names = trace.names
        self.backwards = at_places(trace.backwards.values())
        self.initializing = Initializing(flow, trace)
        self.states = States(flow)
        self.switches = Switches(flow)
        self.guards = Guards(flow)
        self.functions = AutogradFunctions(flow)
        self.clips = Clips(flow, self.entities, self.names)
        self.strays = Strays(flow, self.entities, self.clips)
        self.torch_amp = TorchAmp(flow, trace, self.strays)
        self.scalings = Scalings(flow, trace, self.initializing.spots) if target == "native" else None

    def loop(
        self, backwards: tuple[Event, ...], optimizers: frozenset[Value], related: tuple[Event, ...]
    ) -> tuple[TrainingLoop, list[Obstacle]]:
        """The loop of these events, and all that forbids migrating it."""
        first = min(e.anchor for e in backwards)
        name = f"{first.path}:{first.line}"
        models = self.models(backwards, optimizers)
        obstacles = list(find.of_files(self.flow.files, {e.anchor.path for e in related}, name))
        told = {o.kind for o in obstacles}
        obstacles += (o for o in find.of_events(related, name) if o.kind not in told)
        obstacles += self.gradient_reads(related, name)
        obstacles += self.optional(backwards, related, name)
        calls = []
        places = at_places(backwards)
        marks = [e for e in related if needs_amp(e)]
        guard = self.guard(related)
        for event in by_anchor(backwards):
            call, trouble = self.backward(event, places[event.anchor], name)
            asked = guard.text if guard is not None and self.guards.holds(guard, event) else None
            calls.append(replace(call, off=not call.scaled and self.switches.off(event, marks), guard=asked))
            obstacles += trouble
            obstacles += self.strangers(event, name)
        older = older_parts(backwards, related, self.entities)
        initializes, trouble = ((), []) if older else self.initializing.places(backwards, models, related, name)
        # What else is told says more of a loop than that nothing was found.
        obstacles += (o for o in trouble if not obstacles or o.detail not in (NOWHERE, NOT_FOUND))
        doubts = self.strays_of(related, optimizers)
        obstacles += (Obstacle("gradients-of-no-optimizer", at, "", loop=name) for at in doubts["some"])
        if self.trace.exhausted or self.flow.exhausted:
            obstacles.append(Obstacle("analysis-budget", first, self.flow.shortfall, loop=name))
        found = TrainingLoop(
            id=name,
            anchor=first,
            models=tuple(dict.fromkeys(m for i in initializes for m in i.models)),
            optimizers=tuple(dict.fromkeys(o for i in initializes for o in i.optimizers)),
            backward_calls=tuple(calls),
            initializes=initializes,
            clips=tuple(self.clip(e, optimizers, marks) for e in by_anchor(related, "clip") if e.detail != "masters"),
            saves=tuple(s for e in by_anchor(related, "save") if (s := self.states.save(e)) is not None),
            loads=self.states.loads(by_anchor(related, "load")),
            cross_entropies=tuple(self.cross_entropy(e) for e in by_anchor(related, "cross_entropy")),
            functions=self.functions.reached({frame.path for e in backwards for frame, _ in e.stack}),
            late_wraps=tuple(self.late_wraps(related, initializes)),
            strays=tuple(doubts["maybe"]),
            penalties=tuple(e.anchor for e in by_anchor(related, "autograd_grad") if e.detail == "penalty"),
        )
        # One scaler serves all optimizers that take turns.
        made = tuple(place for place in initializes if not place.again)
        parts = Parts(
            name, backwards, found.backward_calls, optimizers, models, related, made, found.saves, found.loads
        )
        if older:
            return self.of_older(found, parts, older, obstacles)
        native = self.torch_amp.native(backwards, related)
        if native is not None:
            return _left_to_torch(found, native), []
        if found.migrated or (found.begun and self.scalings is not None):
            obstacles = [o for o in obstacles if o.kind not in find.OF_MIGRATING]
        if self.scalings is None or obstacles:
            return found, obstacles
        if found.begun:
            leaving, obstacles = leaving_apex(self.scalings, parts)
            return replace(found, apex=leaving), obstacles
        scaling, obstacles = self.scalings.plan(parts)
        return replace(found, scaling=scaling), obstacles

    def of_older(
        self, found: TrainingLoop, parts: Parts, older: list[Event], obstacles: list[Obstacle]
    ) -> tuple[TrainingLoop, list[Obstacle]]:
        """A loop in an older interface of amp, which scales by itself: there is nothing for the newer one to do."""
        away = self.scalings is not None and on_apex(older, self.flow)
        reason = ""
        if self.scalings is not None and away and self.all_masters(parts, older):
            left = [o for o in obstacles if o.kind != find.HALF]
            plan = told(left[0].told, left[0].anchor) if left else leaving_masters(self.scalings, parts)
            if isinstance(plan, ApexLoop):
                return replace(found, apex=plan), []
            reason = plan
        stored = any(event.kind in ("save", "load") for event in parts.related)
        trouble = of_older(older, parts.calls, parts.id, leaving=away, stored=stored, reason=reason)
        first = min(call.call for call in parts.calls)
        return TrainingLoop(parts.id, first, (), (), parts.calls, (), masters=True), list(trouble)

    def all_masters(self, parts: Parts, older: list[Event]) -> bool:
        """Whether all losses are scaled by optimizers that keep masters, or are where these are not used."""
        made = (e.detail == "masters" or any(map(self.entities.has_masters, e.values)) for e in older)
        return all(call.scaled or call.off for call in parts.calls) and all(made)

    def guard(self, related: Iterable[Event]) -> Guard | None:
        """The condition that all calls of `amp.initialize` which are present stand under."""
        guards = {self.guards.of(event) for event in related if event.kind == "initialize"}
        return next(iter(guards)) if len(guards) == 1 else None

    def clip(self, event: Event, optimizers: frozenset[Value], marks: list[Event]) -> ClipCall:
        clip = self.clips.clip(event, optimizers)
        return replace(clip, right=clip.right or self.switches.off(event, marks))

    # Models and places

    def models(self, backwards: Iterable[Event], optimizers: frozenset[Value]) -> frozenset[Value]:
        """What is trained: the modules whose parameters the optimizers hold, else those the losses come from."""
        found = frozenset(m for o in optimizers for m in self.entities.trained(o))
        if not found:
            found = frozenset(
                m
                for e in backwards
                for v in e.values
                if isinstance(v, Derived)
                for m in self.entities.modules(frozenset((v,)))
            )
        return frozenset(m for m in found if not self.entities.is_optimizer(m))

    # Sites

    def backward(self, event: Event, events: list[Event], loop: str) -> tuple[BackwardCall, list[Obstacle]]:
        """One backward call, as met in any number of runs."""
        assert isinstance(event.node, f.Call)
        facts = self.flow.files[event.frame.path]
        loss = first_argument(event.node) if event.detail in ("function", "masters") else None
        if loss is None and isinstance(event.node.func, f.Attribute):
            loss = event.node.func.value
        assert loss is not None
        trouble: list[Obstacle] = []
        whole = isinstance(event.statement, f.Evaluate) and event.statement.value is event.node
        if not whole:
            trouble.append(Obstacle("backward-in-expression", event.anchor, "", loop=loop))
        texts = self.consumers(events, loop, trouble)
        taken = facts.names
        name = next((n for n in SCALED_NAMES if n not in taken or n == event.scaled), SCALED_NAMES[-1])
        return (
            BackwardCall(
                call=event.anchor,
                statement=facts.anchor(event.statement) if whole else None,
                loss=facts.anchor(loss),
                loss_text=facts.text(loss.span),
                optimizers=texts,
                scaled=event.scaled is not None or event.detail == "masters",
                scaled_name=name,
            ),
            trouble,
        )

    def consumers(self, events: list[Event], loop: str, trouble: list[Obstacle]) -> tuple[str, ...]:
        """How the code at a backward names the optimizers whose step consumes it; () if it cannot name them.

        The same place met in several runs must be nameable in each in the same way.
        """
        found: dict[tuple[str, ...], None] = {}
        for event in events:
            if not event.feeds:
                continue
            fed = self.entities.reached(event)
            favoured = [self.receiver(s) for s in event.feeds.values() if s.frame is event.frame]
            chosen = self.names.cover(Spot.of(event), fed, self.names.optimizers, favoured, self.paired(event))
            if chosen is None:
                return ()
            for expression in chosen:
                if expression.optional and self.asked(event, expression.text):
                    detail = f"{expression.text} may be None here"
                    trouble.append(Obstacle("optional-optimizer", event.anchor, detail, loop=loop))
                trouble.extend(self.unfed(event, expression.text, loop))
            found[tuple(e.text for e in chosen)] = None
        return next(iter(found)) if len(found) == 1 else ()

    def steps_of(self, events: Iterable[Event]) -> dict[tuple[Value, int], set[tuple[str, Frame, Loops]]]:
        """How, and in which function and loops, each optimizer is stepped in each run."""
        found: dict[tuple[Value, int], set[tuple[str, Frame, Loops]]] = {}
        for event in events:
            for value in event.values if event.kind == "step" else ():
                step = (self.receiver(event), event.frame, event.loops)
                found.setdefault((value, event.root), set()).add(step)
        return found

    def paired(self, event: Event) -> frozenset[str]:
        """What alone steps an optimizer, in the function and the loop of a backward: the right one in each round."""
        found: set[str] = set()
        for optimizer in event.feeds:
            steps = self.steps.get((optimizer, event.root), set())
            if len(steps) == 1 and all(step[1:] == (event.frame, event.loops) for step in steps):
                found |= {step[0] for step in steps}
        return frozenset(found)

    def unfed(self, fed: Event, text: str, loop: str) -> Iterator[Obstacle]:
        """The same backward where a caller gives no optimizer: there is nothing to name there."""
        if any(not event.feeds and not self.guarded(event, text) for event in self.backwards[fed.anchor]):
            detail = f"some calls of this function give no {text}"
            yield Obstacle("optional-optimizer", fed.anchor, detail, loop=loop)

    def strangers(self, event: Event, loop: str) -> Iterator[Obstacle]:
        """A loss that comes from modules none of the fed optimizers holds: gradients are carried over by hand. Of what
        is unknown it cannot be told that it is another model."""
        source = self.entities.source(event.values)
        known = source and all(self.entities.is_module(s) for s in source)
        held = [self.entities.trained(o) for o in event.feeds]
        if known and held and all(held) and not any(h & source for h in held):
            yield Obstacle("unresolved-optimizer", event.anchor, "its loss comes from another model", loop=loop)

    def receiver(self, step: Event) -> str:
        assert isinstance(step.node, f.Call)
        if not isinstance(step.node.func, f.Attribute):
            return ""
        return self.flow.files[step.frame.path].text(step.node.func.value.span)

    def optional(self, backwards: tuple[Event, ...], related: Iterable[Event], loop: str) -> Iterator[Obstacle]:
        """Optimizers that exist only under a condition that their step stands under too, and a backward does not."""
        for build in by_anchor(related, "build"):
            if not frozenset(build.values) & frozenset(o for e in backwards for o in e.feeds):
                continue
            conditions = self.conditions(build)
            for event in backwards:
                for optimizer, step in event.feeds.items():
                    shared = conditions & self.conditions(step) - self.conditions(event)
                    if optimizer in build.values and shared:
                        yield Obstacle(
                            "optional-optimizer", event.anchor, f"it exists only if {min(shared)}", loop=loop
                        )

    def conditions(self, event: Event) -> frozenset[str]:
        """Texts of the tests that an event stands under, in its own function and in those that called it."""
        found: set[str] = set()
        for frame, span in event.stack:
            facts = self.flow.files[frame.path]
            around = [block[i] for block, i in path_to(self.flow.scope(frame).body, span)]
            found.update(facts.text(s.test.span) for s in around if isinstance(s, f.Branch))
        return frozenset(found)

    def asked(self, event: Event, text: str) -> bool:
        """Whether a step, but not the backward it consumes, stands under a condition on the optimizer."""
        steps = [s for s in event.feeds.values() if any(self.receiver(s) in c for c in self.conditions(s))]
        return bool(steps) and not self.guarded(event, text)

    def guarded(self, event: Event, text: str) -> bool:
        """Whether a condition around a statement asks for an expression, or for what it is an attribute of."""
        parts = text.split(".")
        asked = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        return any(part in condition for part in asked if part != "self" for condition in self.conditions(event))

    def gradient_reads(self, related: Iterable[Event], loop: str) -> Iterator[Obstacle]:
        for event in by_anchor(related, "grad_read"):
            training = any(e.feeds for e in event.latest)
            if event.detail == "other" and training and not event.only_asks:
                detail, hint = (_MASTERS, _MASTERS_HINT) if self.steps_unknown(event) else ("", "")
                yield Obstacle("input-gradient-read", event.anchor, detail, loop=loop, hint=hint)

    def steps_unknown(self, read: Event) -> bool:
        """Whether a gradient is that of something unknown which an optimizer steps where it was given no module's
        parameters, as where a script keeps master parameters of its own."""
        for optimizer in {o for event in read.latest for o in event.feeds}:
            given = self.flow.elements(self.flow.store.read(optimizer, "params", None))
            if any(isinstance(value, Opaque) and value in given for value in read.values):
                return True
        return False

    def strays_of(self, related: Iterable[Event], optimizers: frozenset[Value]) -> dict[Doubt, list[Anchor]]:
        """The clips and reads of gradients that no optimizer of a loop steps, or may not step; of those that take each
        other's place, each is to step all of them."""
        found: dict[Doubt, list[Anchor]] = {"none": [], "some": [], "maybe": []}
        successors = self.initializing.successors & optimizers
        turns = [optimizers - successors, *(frozenset((o,)) for o in ordered(successors))]
        for event in by_anchor(related, "clip") + by_anchor(related, "grad_read"):
            if event.kind == "clip" or (event.detail == "parameter" and any(e.feeds for e in event.latest)):
                doubts = {self.strays.among(event, turn) for turn in turns}
                found[next(doubt for doubt in DOUBTS if doubt in doubts)].append(event.anchor)
        return found

    def cross_entropy(self, event: Event) -> BinaryCrossEntropy:
        assert isinstance(event.node, f.Call)
        facts = self.flow.files[event.frame.path]
        return BinaryCrossEntropy(event.anchor, facts.anchor(event.node.func), facts.text(event.node.func.span))

    def late_wraps(self, related: Iterable[Event], places: Iterable[Initialize]) -> Iterator[Anchor]:
        """Parallel wraps that come before the optimizer is built, or before what else `amp.initialize` waits for."""
        events = list(related)
        built = max((e.number for e in events if e.kind == "build"), default=0)
        new = (place for place in places if not place.present and not place.again)
        spots = [spot for place in new for spot in self.initializing.spots[place.anchor]]
        for event in by_anchor(events, "wrap"):
            if event.number < built or any(_is_over(event, spot) for spot in spots):
                yield event.anchor


def _left_to_torch(loop: TrainingLoop, native: NativeAmp) -> TrainingLoop:
    """A loop in torch's own mixed precision, where there is nothing for amp to do."""
    calls = tuple(replace(call, off=True) for call in loop.backward_calls)
    loop = replace(loop, initializes=(), clips=(), saves=(), loads=(), cross_entropies=(), late_wraps=(), strays=())
    return replace(loop, backward_calls=calls, native=native)


def _is_over(event: Event, spot: Spot) -> bool:
    """Whether an event has happened when the statement that its own frame, or a caller of that, is at is done."""
    return event.root == spot.root and any(frame is spot.frame and at[:2] < spot.at[2:] for frame, at in event.stack)


def by_anchor(events: Iterable[Event], kind: str = "backward") -> list[Event]:
    """The first event of a kind at each place, in the order of the text."""
    found: dict[Anchor, Event] = {}
    for event in events:
        if event.kind == kind:
            found.setdefault(event.anchor, event)
    return [found[anchor] for anchor in sorted(found)]
