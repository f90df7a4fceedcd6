"""Makes the plan by which a training loop comes into torch's own mixed precision, or says why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from ampify.index.clips import Clips
from ampify.index.devices import Devices
from ampify.index.events import Event, at_places
from ampify.index.flow import Flow
from ampify.index.hindrances import Hindrances, Refused
from ampify.index.moments import Spot
from ampify.index.reaching import Home, Mentions, OutOfReach, Reach, free_name, home_of, mentions, owner_of
from ampify.index.regions import Regions, Stretch, loss_of
from ampify.index.remedies import DEVICE_HINT, GENERATOR_HINT, MIXED_HINT, ONE_HINT, PROBABILITY_HINT
from ampify.index.syntax import path_to
from ampify.index.trace import Trace
from ampify.index.unscaling import At, Trouble, Unscaling
from ampify.index.values import Frame, Value, Values, ordered
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.project import BackwardCall, Initialize, Obstacle, StateLoad, StateSave
from ampify.model.scaling import (
    Creation,
    Device,
    Inline,
    Region,
    ScaledBackward,
    ScaledStep,
    Scaling,
    Update,
    Widening,
)
from ampify.model.scaling import (
    Unscaling as UnscalingPlace,
)

SCALER_NAMES = ("scaler", "grad_scaler", "amp_scaler", "ampify_scaler")
# Events at which the scaler has something to do.
_USING = frozenset({"backward", "step", "clip", "grad_read", "save", "load"})
LOSS_NAMES = ("loss", "amp_loss", "ampify_loss")


@dataclass(frozen=True, slots=True)
class Parts:
    """What the index knows of one loop by now."""

    id: str
    backwards: tuple[Event, ...]
    calls: tuple[BackwardCall, ...]
    optimizers: frozenset[Value]
    models: frozenset[Value]
    related: tuple[Event, ...]
    places: tuple[Initialize, ...]
    saves: tuple[StateSave, ...]
    loads: tuple[StateLoad, ...]


class Scalings:
    """Makes plans from a trace. `spots` are the places in the running program of each place for a scaler."""

    def __init__(self, flow: Flow, trace: Trace, spots: Mapping[Anchor, Sequence[Spot]]) -> None:
        self.flow = flow
        self.trace = trace
        self.names = trace.names
        self.spots = spots
        self.regions = Regions(flow, trace)
        self.clips = Clips(flow, trace.classify.entities, trace.names)
        self._taken: set[tuple[str, int, str]] = set()

    @cached_property
    def mentions(self) -> Mentions:
        """The uses of functions in all files."""
        return mentions(self.flow)

    def plan(self, parts: Parts) -> tuple[Scaling | None, list[Obstacle]]:
        """The plan for a loop, or what forbids it."""
        try:
            return Planning(self, parts).scaling(), []
        except Refused as refusal:
            return None, [Obstacle(refusal.kind, refusal.anchor, refusal.detail, loop=parts.id, hint=refusal.hint)]
        except OutOfReach as reason:
            return None, [
                Obstacle("scaler-out-of-reach", reason.anchor, reason.detail, loop=parts.id, hint=reason.hint)
            ]

    def name(self, parts: Parts, homes: Sequence[Home]) -> str:
        """What the scaler is called: a name that nothing near bears."""
        using = (event for event in parts.related if event.kind in _USING)
        frames = {(frame.path, frame.scope) for event in using for frame, _ in event.stack}
        if all(home.owner for home in homes):
            # What makes the object that keeps the scaler goes by the object.
            frames -= {(fr.path, fr.scope) for home in homes for fr, _ in home.spot.stack if fr is not home.spot.frame}
        scopes = {scope for scope in frames if scope[1]} | {home.scope for home in homes}
        paths = {path for path, _ in frames | scopes}
        known = [self.flow.files[path].names for path in sorted(paths)]
        known += [frozenset(self.flow.store.fields(owner)) for home in homes for owner in home.owner]
        known.append(frozenset(name for path, scope, name in self._taken if (path, scope) in scopes))
        name = free_name(SCALER_NAMES, known)
        if name is None:
            raise Refused("scaler-out-of-reach", homes[0].anchor, "every name for a scaler is taken")
        self._taken |= {(*scope, name) for scope in scopes}
        return name


@dataclass(slots=True)
class Planning:
    """One loop's plan in the making."""

    scalings: Scalings
    parts: Parts

    @property
    def flow(self) -> Flow:
        return self.scalings.flow

    def scaling(self) -> Scaling:
        parts = self.parts
        penalties = self.scalings.regions.penalties
        Hindrances(self.flow, self.scalings.trace, parts.backwards, parts.related, penalties).refuse()
        widenings = tuple(self.widenings())
        homes = list(self.homes())
        name = self.scalings.name(parts, homes)
        reach = Reach(self.flow, self.scalings.regions.slices, self.scalings.names, homes, name, self.mentions)
        devices = Devices(self.flow, self.scalings.names, [e for e in parts.related if e.kind == "move"])
        creations = [Creation(h.anchor, h.scaler(name), self.device(devices, h.spot, h.anchor)) for h in homes]
        if len(set(creations)) > len({creation.anchor for creation in creations}):
            raise Refused(
                "scaler-out-of-reach", creations[0].anchor, "the objects made here are on several devices", DEVICE_HINT
            )
        regions, inlines = self.autocasts(devices)
        backwards = tuple(self.backward(call, reach, inlines) for call in parts.calls if not call.off)
        steps = self.steps()
        return Scaling(
            creations=tuple(dict.fromkeys(creations)),
            regions=regions,
            inlines=inlines,
            widenings=widenings,
            backwards=backwards,
            unscalings=tuple(self.unscalings(reach)),
            steps=self.stepped(steps, reach),
            updates=tuple(self.updates(steps, reach)),
            states=tuple(self.states(reach)),
            parameters=tuple(reach.parameters.values()),
            arguments=tuple(reach.arguments.values()),
        )

    def mentions(self) -> Mentions:
        return self.scalings.mentions

    def homes(self) -> Iterator[Home]:
        for place in self.parts.places:
            spots = self.scalings.spots.get(place.anchor, ())
            homes = [home_of(place.anchor, place.optimizers[0], spot, self.flow) for spot in spots]
            several = {home.owner: home for home in homes}
            if len(several) > 1 and all(several):
                self.refuse_mixed(several)
                yield from several.values()
                continue
            for home in homes[:1]:
                yield home if home.owner else self.common_home(home)

    def refuse_mixed(self, owners: Iterable[Values]) -> None:
        """Objects of one class have a scaler each: raises OutOfReach where one does not train by itself, in methods."""
        known = set(owners)
        for event in (*self.parts.backwards, *self.steps()):
            own = owner_of(self.flow, event.frame)
            if own not in known or any(owner_of(self.flow, step.frame) != own for step in event.feeds.values()):
                detail = "several objects of one class train here, each with a scaler of its own"
                raise OutOfReach(event.anchor, detail, ONE_HINT)

    def common_home(self, home: Home) -> Home:
        """The nearest function around a place that all training runs in: what a factory makes is used by its caller."""
        spot = home.spot
        uses = [e for e in self.parts.related if e.kind in ("backward", "step") and e.root == spot.root]
        around = [(frame, span) for frame, span in spot.stack if frame is not spot.frame]
        stack = (*around, (spot.frame, spot.at))
        for depth in range(len(stack) - 1, -1, -1):
            frame, span = stack[depth]
            key = (frame.path, frame.scope)
            if all(any((other.path, other.scope) == key for other, _ in use.stack) for use in uses):
                if frame is spot.frame:
                    return home
                anchor = self.after(frame, span)
                return home if anchor is None else Home(anchor, Spot(frame, span, stack[:depth], spot.loops, spot.root))
        return home

    def after(self, frame: Frame, span: f.Span) -> Anchor | None:
        """The statement at a range, if another one can follow it at once."""
        block, index = path_to(self.flow.scope(frame).body, span)[-1]
        statement = block[index]
        simple = isinstance(statement, f.Assign | f.Evaluate)
        return self.flow.files[frame.path].anchor(statement) if simple else None

    # Autocast

    def autocasts(self, devices: Devices) -> tuple[tuple[Region, ...], tuple[Inline, ...]]:
        """The statements under autocast, and the backwards that run the model themselves."""
        cast = self.cast(devices)
        inline = {e.anchor: e for e in self.parts.backwards if self.scalings.regions.runs_inline(e)}
        inlines = (self.inline(call, inline[call.call], devices) for call in self.parts.calls if call.call in inline)
        return cast, tuple(inlines)

    def cast(self, devices: Devices) -> tuple[Region, ...]:
        """The statements under autocast, in the order of the text."""
        stretches, lost = self.scalings.regions.stretches(self.parts.backwards)
        for event in filter(self.scalings.regions.only_penalized, self.parts.backwards):
            detail = "gradients that are part of a loss are computed of its one forward, which stays in float32"
            raise Refused("gradients-out-of-step", event.anchor, detail)
        for event in lost:
            detail = "no statement by itself runs the model for this loss"
            raise Refused("forward-not-parted", event.anchor, detail)
        found = {(s.frame.path, s.first.span, s.last.span): s for s in stretches}
        return tuple(self.region(found[key], devices) for key in sorted(found))

    def region(self, stretch: Stretch, devices: Devices) -> Region:
        facts = self.flow.files[stretch.frame.path]
        span = (*stretch.first.span[:2], *stretch.last.span[2:])
        first, last = facts.anchor(stretch.first), facts.anchor(stretch.last)
        if "yield" in facts.text(span):
            raise Refused(
                "forward-not-parted", first, "a generator would leave autocast on between its values", GENERATOR_HINT
            )
        if self.scalings.regions.mixed(stretch):
            detail = "it runs a trained model without gradients as well, whose cast weights autocast would use again"
            raise Refused("forward-not-parted", first, detail, MIXED_HINT)
        spot = replace(self.spot(stretch.event, stretch.depth), at=stretch.first.span)
        return Region(first, last, self.device(devices, spot, first))

    def inline(self, call: BackwardCall, event: Event, devices: Devices) -> Inline:
        facts = self.flow.files[call.call.path]
        loss = loss_of(event)
        if isinstance(loss, f.Walrus) and call.statement is not None:
            device = self.device(devices, Spot.of(event), call.call)
            return Inline(call.statement, call.loss, facts.text(loss.value.span), loss.target.id, device)
        name = free_name(LOSS_NAMES, [self.words(event)])
        if name is None or call.statement is None or "\n" in call.loss_text:
            raise Refused("forward-not-parted", call.call, "the loss has no statement of its own")
        device = self.device(devices, Spot.of(event), call.call)
        return Inline(call.statement, call.loss, call.loss_text, name, device)

    def widenings(self) -> Iterator[Widening]:
        """Losses that autocast refuses: what goes into them, and what is put around those that are not outside."""
        regions = self.scalings.regions
        for event in regions.probability_losses(self.parts.backwards):
            facts = self.flow.files[event.frame.path]
            argument = regions.probabilities.first(event)
            if argument is None:
                detail = "autocast refuses this loss of probabilities, and they are not its first argument here"
                raise Refused("forward-not-parted", event.anchor, detail, PROBABILITY_HINT)
            found = Widening(event.anchor, facts.anchor(argument), facts.text(argument.span))
            if isinstance(event.node, f.Call) and not regions.probabilities.alone(event):
                function = event.node.func
                yield replace(found, function=facts.anchor(function), function_text=facts.text(function.span))
            elif regions.parted(event, self.parts.backwards):
                yield found
            else:
                yield replace(found, around=facts.anchor(event.statement))

    def device(self, devices: Devices, spot: Spot, at: Anchor) -> Device:
        found = devices.at(spot, self.parts.models)
        if found is None:
            detail = "nothing here tells which device the model is on"
            raise Refused("scaler-out-of-reach", at, detail, DEVICE_HINT)
        return found

    def words(self, event: Event) -> frozenset[str]:
        """The words in the function of an event."""
        facts = self.flow.files[event.frame.path]
        scope = self.flow.scope(event.frame)
        return frozenset(re.findall(r"\w+", facts.text(scope.span))) if scope.kind == "function" else facts.names

    @staticmethod
    def spot(event: Event, depth: int) -> Spot:
        """The place where an event's stack is at some depth."""
        frame, span = event.stack[depth]
        outer = {fr for fr, _ in event.stack[: depth + 1]}
        loops = frozenset(loop for loop in event.loops if loop[0] in outer)
        return Spot(frame, span, event.stack[: depth + 1], loops, event.root)

    # Gradients

    def backward(self, call: BackwardCall, reach: Reach, inlines: Iterable[Inline]) -> ScaledBackward:
        here = [e for e in self.parts.backwards if e.anchor == call.call]
        name = next((one.name for one in inlines if one.loss == call.loss), None)
        text = f"({call.loss_text})" if call.loss.kind == "NamedExpr" else call.loss_text
        return ScaledBackward(call.call, call.loss, name or text, self.same(here, reach))

    def same(self, events: Iterable[Event], reach: Reach) -> str:
        """The scaler's one name at a place that is met in several runs."""
        found = {reach.at(Spot.of(event)): event for event in events}
        if len(found) != 1:
            event = next(iter(found.values()))
            raise OutOfReach(event.anchor, "the scaler would have other names in other runs", ONE_HINT)
        return next(iter(found))

    def steps(self) -> list[Event]:
        """The steps of the loop's optimizers."""
        return [e for e in self.parts.related if e.kind == "step" and e.detail == ""]

    def stepped(self, steps: list[Event], reach: Reach) -> tuple[ScaledStep, ...]:
        """The steps by the scaler, in the order of the text."""
        return tuple(self.step(here, reach) for _, here in sorted(at_places(steps).items()))

    def step(self, steps: Sequence[Event], reach: Reach) -> ScaledStep:
        node = steps[0].node
        if not isinstance(node, f.Call) or not isinstance(node.func, f.Attribute):
            raise Refused("gradients-out-of-step", steps[0].anchor, "the optimizer cannot be named here")
        optimizer = self.flow.files[steps[0].frame.path].text(node.func.value.span)
        return ScaledStep(steps[0].anchor, optimizer, self.same(steps, reach))

    def unscaling(self) -> Unscaling:
        return Unscaling(self.flow, self.scalings.trace, self.parts.backwards)

    def unscalings(self, reach: Reach) -> Iterator[UnscalingPlace]:
        """Each place where gradients are unscaled: for each optimizer the first of a block only."""
        found: dict[tuple[object, Value], tuple[At, Anchor]] = {}
        unscaling = self.unscaling()
        for event in self.readers():
            for optimizer in self.read_of(event):
                at = unscaling.place(event, optimizer)
                if isinstance(at, Trouble):
                    raise Refused("gradients-out-of-step", event.anchor, at.detail)
                if at is not None:
                    key = (unscaling.block_key(at), optimizer)
                    if key not in found or at.statement.span < found[key][0].statement.span:
                        found[key] = (at, event.anchor)
        merged: dict[Anchor, UnscalingPlace] = {}
        for (_, optimizer), (at, reader) in found.items():
            place = self.unscaled(at, reader, optimizer, reach)
            known = merged.get(place.anchor)
            merged[place.anchor] = (
                replace(known, optimizers=tuple(dict.fromkeys((*known.optimizers, *place.optimizers))))
                if known
                else place
            )
        yield from (merged[anchor] for anchor in sorted(merged))

    def unscaled(self, at: At, reader: Anchor, optimizer: Value, reach: Reach) -> UnscalingPlace:
        anchor = self.flow.files[at.frame.path].anchor(at.statement)
        spot = replace(self.spot(at.event, at.depth), at=at.statement.span)
        if at.receiver:
            return UnscalingPlace(anchor, reader, (at.receiver,), reach.at(spot))
        names = self.scalings.names
        named = names.cover(spot, frozenset((optimizer,)), names.optimizers)
        if not named or len(named) != 1 or named[0].optional or named[0].container:
            raise Refused("gradients-out-of-step", reader, "the optimizer whose gradients this reads has no name here")
        return UnscalingPlace(anchor, reader, (named[0].text,), reach.at(spot))

    def readers(self) -> list[Event]:
        """What reads gradients of parameters, in the order of the trace."""
        return [
            e
            for e in self.parts.related
            if e.kind == "clip" or (e.kind == "grad_read" and e.detail == "parameter" and not e.only_asks)
        ]

    def read_of(self, event: Event) -> list[Value]:
        """The optimizers whose gradients may be read."""
        entities = self.scalings.trace.classify.entities
        modules = entities.modules(frozenset(event.values))
        fed = {o for b in event.latest | event.live for o in b.feeds if o in self.parts.optimizers}
        apart = {o for o in fed if modules and entities.trained(o) and not modules & entities.trained(o)}
        return ordered(fed - apart)

    def updates(self, steps: list[Event], reach: Reach) -> Iterator[Update]:
        found: dict[Anchor, Update] = {}
        for at in self.unscaling().updates(steps):
            if isinstance(at, Trouble):
                raise Refused("gradients-out-of-step", at.event.anchor, at.detail)
            anchor = self.flow.files[at.frame.path].anchor(at.statement)
            found[anchor] = Update(anchor, at.event.anchor, reach.at(Spot.of(at.event)))
        yield from (found[anchor] for anchor in sorted(found))

    # Checkpoints

    def states(self, reach: Reach) -> Iterator[tuple[Anchor, str]]:
        """The scaler's names where optimizer state is saved and loaded, as far as it has one there and has a use."""
        loads = {load.site: load for load in self.parts.loads}
        loadable = {site for site, load in loads.items() if load.source is not None and load.statement is not None}
        loaded = dict(self._reached("load", loadable, reach))
        yield from loaded.items()
        readers = [load.reader(loaded=site in loaded) for site, load in loads.items()]
        if not any(readers):
            open_saves = (save for save in self.parts.saves if save.read_whole is None and not save.present)
            wanted = {save.site for save in open_saves if save.container is not None or save.target is not None}
            yield from self._reached("save", wanted, reach)

    def _reached(self, kind: str, wanted: Set[Anchor], reach: Reach) -> Iterator[tuple[Anchor, str]]:
        for event in self.parts.related:
            if event.kind == kind and event.anchor in wanted:
                with suppress(OutOfReach):
                    yield event.anchor, reach.at(Spot.of(event))
