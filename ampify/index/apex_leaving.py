"""Makes the plan by which a training loop on NVIDIA apex's amp comes into torch's own, or says why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ampify.index.apex_blocks import body_code, opens_block
from ampify.index.apex_masters import MastersCall, MastersCalls
from ampify.index.apex_starts import Starts
from ampify.index.devices import Devices
from ampify.index.events import Event
from ampify.index.hindrances import Hindrances, Refused
from ampify.index.moments import Spot
from ampify.index.reaching import Home, OutOfReach, Reach, free_name, home_of
from ampify.index.regions import Stretch
from ampify.index.scaling import LOSS_NAMES, Parts, Planning, Scalings
from ampify.index.switches import Switches, needs_amp
from ampify.index.syntax import expressions, first_argument, in_order, last_name, path_to, statements
from ampify.index.values import External, Frame, Instance, Value, is_masters, ordered
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.apex_loop import ApexLoop, Block, Masters, State
from ampify.model.project import Obstacle
from ampify.model.scaling import Device, Inline, Region, Scaling

_AMP = "ampify_runtime.amp."
_WORD = re.compile(r"[A-Za-z_][\w.]*")
_STATE_NAMES = ("amp_state", "apex_state", "ampify_state")
_SAVED_NAMES = ("apex_scaler", "saved_scaler", "apex_loss_scaler")


def leaving_apex(scalings: Scalings, parts: Parts) -> tuple[ApexLoop | None, list[Obstacle]]:
    """The plan for a loop that trains through apex's amp, or what forbids it."""
    try:
        return Leaving.of(scalings, parts).loop(), []
    except Refused as refusal:
        return None, [Obstacle(refusal.kind, refusal.anchor, refusal.detail, loop=parts.id, hint=refusal.hint)]
    except OutOfReach as reason:
        return None, [Obstacle("scaler-out-of-reach", reason.anchor, reason.detail, loop=parts.id, hint=reason.hint)]


@dataclass(frozen=True, slots=True)
class _With:
    """A block of `amp.scale_loss`, and the loss it scales."""

    event: Event
    statement: f.With
    call: f.Call
    loss: f.Expr


@dataclass(slots=True)
class Leaving(Planning):
    """One loop's plan in the making. Its backwards are read as those of the losses that their blocks scale."""

    withs: dict[Anchor, _With]
    switches: Switches
    # Those included that run where amp is off.
    all_backwards: tuple[Event, ...]
    starts: Starts
    switched: bool = False
    reach: Reach | None = None

    @classmethod
    def of(cls, scalings: Scalings, parts: Parts) -> Leaving:
        """The plan of a loop, its blocks found."""
        flow = scalings.flow
        withs: dict[Anchor, _With] = {}
        backwards: list[Event] = []
        off = {call.call for call in parts.calls if call.off}
        for event in parts.backwards:
            if event.anchor in off:
                continue
            if event.scaled is None:
                # Its author forgot the scale; the scaler is there for all.
                backwards.append(event)
                continue
            found = _with_of(event, scalings)
            withs.setdefault(event.anchor, found)
            backwards.append(_around(event, found))
        own = replace(parts, backwards=tuple(backwards))
        return cls(scalings, own, withs, Switches(flow), parts.backwards, Starts(flow))

    def loop(self) -> ApexLoop:
        """The whole plan."""
        parts = self.parts
        penalties = self.scalings.regions.penalties
        Hindrances(self.flow, self.scalings.trace, self.all_backwards, parts.related, penalties).refuse()
        widenings = tuple(self.widenings())
        beginning = self.beginning()
        begun = {e.anchor: e for e in beginning}
        self.switched = any(self.starts.switched(e) for e in begun.values())
        homes = [self.home(event) for event in begun.values()]
        name = self.scalings.name(parts, homes)
        reach = Reach(self.flow, self.scalings.regions.slices, self.scalings.names, homes, name, self.mentions)
        self.reach = reach
        devices = Devices(self.flow, self.scalings.names, [e for e in parts.related if e.kind == "move"])
        regions, inlines = self.autocasts(devices)
        steps = self.steps()
        scaling = Scaling(
            regions=regions,
            inlines=inlines,
            widenings=widenings,
            backwards=tuple(self.backward(c, reach, inlines) for c in parts.calls if not (c.off or c.scaled)),
            unscalings=tuple(self.unscalings(reach)),
            steps=self.stepped(steps, reach),
            updates=tuple(self.updates(steps, reach)),
            states=tuple(self.states(reach)),
        )
        blocks = tuple(dict.fromkeys(self.block(one, reach, inlines) for one in self.withs.values()))
        begins = tuple(
            self.starts.start(e, h.scaler(name), self.device(devices, h.spot, h.anchor))
            for e, h in zip(begun.values(), homes, strict=True)
        )
        self.refuse_outer_conditions(beginning)
        found = self.completed(ApexLoop(scaling, begins, blocks, (), ()), reach)
        # What was passed along for all of these is known only now.
        passed = replace(
            scaling, parameters=tuple(reach.parameters.values()), arguments=tuple(reach.arguments.values())
        )
        return replace(found, scaling=passed)

    def completed(self, found: ApexLoop, reach: Reach) -> ApexLoop:
        """A plan with what else there is of apex in the loop."""
        return replace(found, masters=tuple(self.masters()), states=tuple(self.amp_states(reach)))

    def beginning(self) -> list[Event]:
        """The calls that training starts by, as met in each run."""
        return [e for e in self.parts.related if e.kind == "initialize"]

    # The scaler

    def home(self, event: Event) -> Home:
        anchor = self.flow.files[event.frame.path].anchor(event.statement)
        words = self.optimizer_words(event)
        if not words:
            raise Refused("apex-amp-loop", event.anchor, "amp.initialize is given no optimizer here")
        home = home_of(anchor, words[0], Spot.of(event), self.flow)
        if not home.owner and self.common_home(home) is not home:
            detail = f"{self.starts.kind.name} is called in a function that has returned when the training begins"
            raise OutOfReach(event.anchor, detail)
        return home

    def optimizer_words(self, event: Event) -> list[str]:
        """How the optimizer is spelled that a call is given."""
        assert isinstance(event.node, f.Call)
        given = [*event.node.args[1:2], *(v for n, v in event.node.keywords if n == "optimizers")]
        return _WORD.findall(self.flow.files[event.frame.path].text(given[0].span)) if given else []

    def refuse_outer_conditions(self, begun: Sequence[Event]) -> None:
        """Refuses a call in a function that is itself called under a condition, unless the training is so too."""
        # What trains in the call of a function that it stands in is under the same conditions.
        within = {event.frame for event in begun}
        apart = [use for use in self.parts.backwards if within.isdisjoint(frame for frame, _ in use.stack)]
        for event in begun:
            uses = [use for use in apart if use.root == event.root]
            shared = [{frame for frame, _ in use.stack} for use in uses]
            for frame, span in event.stack[:-1]:
                if not all(frame in frames for frames in shared) or not shared:
                    continue
                same = all((frame, span) in use.stack for use in uses)
                if not same and any("__name__" not in test for test in self.switches.tests(frame, span)):
                    raise Refused(
                        self.starts.kind.rule, event.anchor, "a condition elsewhere decides whether this is called"
                    )

    def device(self, devices: Devices, spot: Spot, at: Anchor) -> Device:
        # apex's amp runs on GPUs only.
        found = devices.at(spot, self.parts.models) or Device('"cuda"')
        return Device(found.kind) if self.switched else found

    # Forward and backward

    def region(self, stretch: Stretch, devices: Devices) -> Region:
        # Named by the base class, since a class with slots is made anew and `super()` does not know it.
        region = Planning.region(self, stretch, devices)
        spot = replace(self.spot(stretch.event, stretch.depth), at=stretch.first.span)
        return replace(region, device=self.switching(region.device, spot))

    def switching(self, device: Device, spot: Spot) -> Device:
        """A device, with the scaler to ask where something decides at run time whether amp is on."""
        if not self.switched:
            return device
        assert self.reach is not None
        return Device(device.kind, f"{self.reach.at(spot)}.is_enabled()")

    def autocasts(self, devices: Devices) -> tuple[tuple[Region, ...], tuple[Inline, ...]]:
        # The backwards inside of blocks have no statement of their own: their losses are handled with the blocks.
        inline = (e for e in self.parts.backwards if self.scalings.regions.runs_inline(e))
        plain = {call.call: call for call in self.parts.calls if not call.scaled}
        found = [
            self.inline(plain[e.anchor], e, devices) if e.anchor in plain else self.inlined(e, devices) for e in inline
        ]
        return self.cast(devices), tuple(dict.fromkeys(found))

    def inlined(self, event: Event, devices: Devices) -> Inline:
        facts = self.flow.files[event.frame.path]
        found = self.withs[event.anchor]
        name = free_name(LOSS_NAMES, [self.words(event)])
        text = facts.text(found.loss.span)
        if name is None or "\n" in text or isinstance(found.loss, f.Walrus):
            raise Refused("forward-not-parted", event.anchor, "the loss has no statement of its own")
        device = self.switching(self.device(devices, Spot.of(event), event.anchor), Spot.of(event))
        return Inline(facts.anchor(found.statement), facts.anchor(found.loss), text, name, device)

    def block(self, found: _With, reach: Reach, inlines: Iterable[Inline]) -> Block:
        facts = self.flow.files[found.event.frame.path]
        loss = facts.anchor(found.loss)
        inline = next((one for one in inlines if one.loss == loss), None)
        here = [_around(e, found) for e in self.parts.backwards if e.anchor == found.event.anchor]
        scaler = self.same(here, reach)
        code = body_code(facts, found.statement, scaler, inline.name if inline else facts.text(found.loss.span))
        if code is None:
            raise Refused("apex-amp-loop", found.event.anchor, "the block is laid out in a way that cannot be undone")
        return Block(found.event.anchor, facts.anchor(found.statement), facts.anchor(found.call), code, inline)

    # Gradients

    def steps(self) -> list[Event]:
        marks = [e for e in self.parts.related if needs_amp(e)]
        return [e for e in Planning.steps(self) if not self.switches.off(e, marks)]

    def readers(self) -> list[Event]:
        marks = [e for e in self.parts.related if needs_amp(e)]
        return [e for e in Planning.readers(self) if not self.switches.off(e, marks)]

    def read_of(self, event: Event) -> list[Value]:
        masters = self.mastered(event) if event.detail == "master" else frozenset()
        return ordered(masters & self.parts.optimizers) or Planning.read_of(self, event)

    def mastered(self, clip: Event) -> frozenset[Value]:
        """The optimizers whose parameters a clip asks `amp.master_params` for."""
        made = [self.flow.created[v] for v in clip.values if isinstance(v, Instance) and is_masters(v)]
        calls = MastersCalls(self.flow, self.scalings.trace.classify.entities)
        return frozenset(o for frame, call in made for o in calls.given(call, frame))

    def masters(self) -> Iterator[Masters]:
        """The parameters in place of each `amp.master_params`."""
        clips = {
            (e.frame.path, taken.span): e
            for e in self.parts.related
            if e.kind == "clip" and isinstance(e.node, f.Call) and (taken := first_argument(e.node)) is not None
        }
        for found in MastersCalls(self.flow, self.scalings.trace.classify.entities).all():
            if found.optimizers.isdisjoint(self.parts.optimizers):
                continue
            facts = self.flow.files[found.frame.path]
            if found.astray is not None:
                detail = (
                    "amp.master_params goes where it cannot be followed; nearest are the optimizer's param_groups, "
                    "after scaler.unscale_(optimizer) if gradients are read there"
                )
                raise Refused("apex-amp-loop", facts.anchor(found.astray), detail)
            code = self.parameters(found, clips.get((found.frame.path, found.call.span)))
            yield Masters(facts.anchor(found.call), code)

    def of_model(self, clip: Event, optimizers: Iterable[Value]) -> str | None:
        """The parameters of the model that is all that optimizers step, if it has a name at a clip."""
        clips, names = self.scalings.clips, self.scalings.names
        held = frozenset().union(*map(clips.held, optimizers))
        named = names.cover(Spot.of(clip), held, names.models) if held else None
        if named and len(named) == 1 and not named[0].optional and not named[0].container:
            return f"{named[0].text}.parameters()"
        return None

    def parameters(self, found: MastersCall, clip: Event | None) -> str:
        """An expression of the parameters that an optimizer steps: for a clip, those of its model do as well."""
        if clip is not None and len(found.optimizers) == 1:
            named = self.of_model(clip, found.optimizers)
            if named is not None:
                return named
        given = first_argument(found.call)
        assert given is not None
        optimizer = self.flow.files[found.frame.path].text(given.span)
        text = f'p for group in {optimizer}.param_groups for p in group["params"]'
        return f"({text})" if found.once else f"[{text}]"

    # Checkpoints

    def amp_states(self, reach: Reach) -> Iterator[State]:
        """The places where amp's state is saved and loaded, in the files that are used together."""
        for (path, _), frames in sorted(self.flow.frames_of.items(), key=lambda item: item[0]):
            facts = self.flow.files[path]
            for statement in statements(self.flow.scope(frames[0]).body):
                for call in _state_calls(statement):
                    name = self.amp_function(call, frames)
                    if name is not None:
                        yield self.amp_state(facts, call, statement, frames[0], reach, loads=name == "load_state_dict")

    def amp_function(self, call: f.Call, frames: Iterable[Frame]) -> str | None:
        """Which function of amp a call is of."""
        for frame in frames:
            for value in self.flow.evaluate(call.func, frame):
                if isinstance(value, External) and value.dotted.startswith(_AMP):
                    return value.dotted.removeprefix(_AMP)
        return None

    def amp_state(
        self, facts: f.FileFacts, call: f.Call, statement: f.Stmt, frame: Frame, reach: Reach, *, loads: bool
    ) -> State:
        scaler = reach.at(Spot(frame, statement.span, ((frame, statement.span),), frozenset(), -1))
        if not loads:
            return State(facts.anchor(call.func), scaler)
        whole = isinstance(statement, f.Evaluate) and statement.value is call and len(call.args) == 1
        text = facts.text(call.args[0].span) if whole else ""
        name, saved = free_name(_STATE_NAMES, [facts.names]), free_name(_SAVED_NAMES, [facts.names])
        if not text or "\n" in text or name is None or saved is None:
            raise Refused("apex-amp-loop", facts.anchor(call), "amp's state is loaded here as part of something larger")
        return State(facts.anchor(call.func), scaler, facts.anchor(statement), text, name, saved)


def _with_of(event: Event, scalings: Scalings) -> _With:
    """The block of `amp.scale_loss` that a backward stands in."""
    body = scalings.flow.scope(event.frame).body
    for block, index in reversed(path_to(body, event.statement.span)):
        statement = block[index]
        if isinstance(statement, f.With) and opens_block(statement, event.scaled):
            context = statement.items[0][0]
            if len(statement.items) == 1 and isinstance(context, f.Call):
                given = [*context.args[:1], *(v for n, v in context.keywords if n == "loss")]
                if given and not isinstance(given[0], f.Starred):
                    return _With(event, statement, context, given[0])
    raise Refused(
        "apex-amp-loop", event.anchor, "the block that scales this loss is written in a way that is not known"
    )


def _around(event: Event, found: _With) -> Event:
    """A backward as one of the loss that its block scales, where the block stands."""
    assert isinstance(event.node, f.Call)
    node = f.Call(event.node.span, f.Attribute(found.loss.span, found.loss, "backward"), (), ())
    stack = (*event.stack[:-1], (event.frame, found.statement.span))
    return replace(event, node=node, statement=found.statement, stack=stack, detail="method")


def _state_calls(statement: f.Stmt) -> Iterator[f.Call]:
    for expression in expressions(statement):
        for node, _ in in_order(expression):
            if isinstance(node, f.Call) and last_name(node.func) in ("state_dict", "load_state_dict"):
                yield node
