"""Finds the mistakes of a training loop that scales and casts by torch's own GradScaler and autocast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ampify.index.autocasts import autocasts_around, is_autocast, is_scaler, scalers
from ampify.index.events import Event, of_kinds
from ampify.index.flow import Flow
from ampify.index.scaled_reads import ScaledReads, call_parts, is_scaled
from ampify.index.strays import Strays
from ampify.index.switches import Switches
from ampify.index.syntax import first_argument, inside, last_name, path_to, statements
from ampify.index.trace import Trace
from ampify.index.values import Frame, NoneValue, Value
from ampify.index.whole_reads import WholeReads
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.native import Defect, NativeAmp, Repair

_BFLOAT16 = "bfloat16"
_SCALER = "GradScaler"
_LEAVING = (f.Return, f.Jump)


class TorchAmp:
    """Reads loops off a trace."""

    def __init__(self, flow: Flow, trace: Trace, strays: Strays) -> None:
        self.flow = flow
        self.trace = trace
        self.switches = Switches(flow)
        self.whole_reads = WholeReads(flow)
        self.kinds: dict[str, list[Event]] = {}
        for event in trace.events:
            self.kinds.setdefault(event.kind, []).append(event)
        self.scaled_reads = ScaledReads(flow, self.switches, strays, self.kinds)

    def native(self, backwards: Iterable[Event], related: tuple[Event, ...]) -> NativeAmp | None:
        """The mistakes of a loop in torch's mixed precision; None if it is in none."""
        ours = list(backwards)
        stepped = any(e.kind == "step" and e.detail == "scaler" for e in related)
        scaled = any(map(is_scaled, ours)) and "scaler" in self.kinds
        casts = any(any(autocasts_around(self.flow, e)) for e in ours) or any(map(self.beside_autocast, ours))
        unknown = any(e.kind == "step" and e.detail == "stranger" for e in related)
        if unknown or not (stepped or scaled or casts):
            return None
        found = [*self.order(ours, related), *self.places(ours, related), *self.checkpoints(related)]
        unique = {(d.kind, d.anchor): d for d in reversed(found)}
        return NativeAmp(tuple(sorted(unique.values(), key=lambda d: (d.anchor, d.kind))))

    def beside_autocast(self, event: Event) -> bool:
        """Whether an autocast is entered in the loop of a backward, or in its function if it has none; a loop in a
        function that called it is the backward's, too."""
        frames = [event.stack[-1], *((fr, at) for fr, at in event.stack[:-1] if fr in {fr for fr, _ in event.loops})]
        return any(self.casts_in(frame, at) for frame, at in frames)

    def casts_in(self, frame: Frame, at: f.Span) -> bool:
        """Whether a function enters an autocast in the loop that it is in at a place, or anywhere if it is in none."""
        body = self.flow.scope(frame).body
        around = [block[i] for block, i in path_to(body, at)]
        rounds = [s for s in around if isinstance(s, f.For | f.While)]
        inner = statements(rounds[-1].body if rounds else body)
        contexts = (context for s in inner if isinstance(s, f.With) for context, _ in s.items)
        return any(is_autocast(v) for context in contexts for v in self.flow.evaluate(context, frame))

    # In what order

    def order(self, backwards: list[Event], related: tuple[Event, ...]) -> Iterator[Defect]:
        """Mistakes in the order of backward, unscale, clip, step and update."""
        scaled = [e for e in backwards if is_scaled(e)]
        if not scaled:
            return
        yield from self.scaled_reads.defects(related)
        yield from self.repeated(related)
        yield from self.never_updated(related)
        for backward in scaled:
            for step in backward.feeds.values():
                past = step.detail == "" and not self.switches.apart(step, backward)
                if past and not self.guarded(step, related) and not self.stands_in(step):
                    yield Defect("step-past-scaler", step.anchor, "", ((backward.anchor, "scaled here"),))

    def guarded(self, step: Event, related: tuple[Event, ...]) -> bool:
        """Whether a step of the scaler stands in another arm of the condition that a plain step is under."""
        return any(e.kind == "step" and e.detail == "scaler" and self.switches.apart(e, step) for e in related)

    def stands_in(self, step: Event) -> bool:
        """Whether a step is that of a class of the project's own that takes the scaler's place where torch has none."""
        parent = self.flow.scope(step.frame).parent
        around = self.flow.files[step.frame.path].scopes[parent] if parent is not None else None
        return around is not None and around.kind == "class" and around.name == _SCALER

    def repeated(self, related: tuple[Event, ...]) -> Iterator[Defect]:
        """An `unscale_` after another of the same step, and an update after another of the same round."""
        roots = {e.root for e in related}
        for root in sorted(roots):
            unscaled: dict[Value, Event] = {}
            updated: dict[Value, Event] = {}
            for event in of_kinds(self.kinds, "unscale update step backward", root):
                if event.kind == "unscale":
                    yield from self.again(event, unscaled, "unscaled-twice")
                elif event.kind == "update":
                    unscaled = {o: e for o, e in unscaled.items() if not self.follows(event, e)}
                    yield from self.again(event, updated, "scaler-updated-twice")
                elif event.kind == "step":
                    unscaled = {
                        o: e for o, e in unscaled.items() if o not in event.values or not self.follows(event, e)
                    }
                else:
                    updated.clear()

    def follows(self, event: Event, before: Event) -> bool:
        """Whether an event comes after another whenever that one does, as far as the conditions around them tell."""
        if event.frame is not before.frame:
            return True
        return set(self.conditions(event)) <= set(self.conditions(before))

    def again(self, event: Event, before: dict[Value, Event], kind: str) -> Iterator[Defect]:
        for value in event.values:
            if (kind == "unscaled-twice") == is_scaler(value):
                continue
            earlier = before.get(value)
            if earlier is not None and not self.switches.apart(event, earlier):
                yield Defect(kind, event.anchor, "", ((earlier.anchor, "the first time"),))
            before[value] = event

    def never_updated(self, related: tuple[Event, ...]) -> Iterator[Defect]:
        """Steps of a scaler that nothing in the program updates."""
        updated = {v for e in self.kinds.get("update", ()) for v in e.values}
        for step in _first(e for e in related if e.kind == "step" and e.detail == "scaler"):
            used = self.receivers(step)
            if used and not updated & set(used):
                alone = isinstance(step.statement, f.Evaluate) and len(self.steps_of(used)) == 1
                anchor = self.flow.files[step.frame.path].anchor(step.statement)
                repair = Repair(anchor, call_parts(self.flow, step)[:1]) if alone else None
                yield Defect("scaler-not-updated", step.anchor, "", (), repair)

    def steps_of(self, used: tuple[Value, ...]) -> set[Anchor]:
        """The places where these scalers step."""
        steps = (e for e in self.kinds.get("step", ()) if e.detail == "scaler")
        return {e.anchor for e in steps if set(used) & set(self.receivers(e))}

    def receivers(self, step: Event) -> tuple[Value, ...]:
        """The scalers of `scaler.step(optimizer)`."""
        assert isinstance(step.node, f.Call)
        assert isinstance(step.node.func, f.Attribute)
        return scalers(self.flow.evaluate(step.node.func.value, step.frame))

    # Under what

    def places(self, backwards: list[Event], related: tuple[Event, ...]) -> Iterator[Defect]:
        """What stands under an autocast that should not, and scalers that are made or used in the wrong place."""
        for backward in _first(backwards):
            for frame, statement, _ in autocasts_around(self.flow, backward):
                depths = {fr: depth for depth, (fr, _) in enumerate(backward.stack)}
                rounds = any(
                    depths.get(fr, 0) > depths[frame] or (fr is frame and inside(span, statement.span))
                    for fr, span in backward.loops
                )
                kind = "autocast-around-loop" if rounds else "backward-under-autocast"
                if rounds or frame is backward.frame:
                    yield Defect(kind, backward.anchor, "", ((self.flow.files[frame.path].anchor(statement), "here"),))
                    break
        for event in _first(e for e in related if e.kind in ("cross_entropy", "half")):
            around = list(autocasts_around(self.flow, event))
            if around and event.kind == "cross_entropy" and not any(map(self.is_off, around)):
                yield Defect("probability-loss-under-autocast", event.anchor)
            elif around and event.kind == "half" and not any(map(self.is_off, around)):
                yield Defect("half-under-autocast", event.anchor)
        yield from self.of_scalers(backwards)

    def is_off(self, around: tuple[Frame, f.With, f.Call | None]) -> bool:
        """Whether an autocast is given `enabled=False`."""
        call = around[2]
        if call is None:
            return False
        # `enabled` comes first where the device is part of the name, and third where the device comes first.
        given = [*call.args[:1], *call.args[2:3], *(v for n, v in call.keywords if n == "enabled")]
        return any(isinstance(v, f.Constant) and v.value is False for v in given)

    def of_scalers(self, backwards: list[Event]) -> Iterator[Defect]:
        if not any(map(is_scaled, backwards)):
            return
        roots = {e.root for e in backwards}
        made = [e for e in self.kinds.get("scaler", ()) if e.root in roots]
        rounds = frozenset(loop for b in backwards for loop in b.loops)
        # A loop that makes optimizers too, such as one that starts processes, makes each training as a whole.
        rounds -= frozenset(loop for e in self.kinds.get("build", ()) if e.root in roots for loop in e.loops)
        for event in _first(made):
            if event.loops & rounds:
                yield Defect("scaler-made-anew", event.anchor)
        if made and self.casts_to_bfloat16(backwards):
            yield Defect("scaler-for-bfloat16", made[0].anchor)

    def casts_to_bfloat16(self, backwards: list[Event]) -> bool:
        """Whether every autocast in the functions of the backwards says bfloat16 and nothing else."""
        calls = [c for b in backwards for c in self.autocast_calls(b)]
        texts = [[self.flow.files[b].text(v.span) for n, v in c.keywords if n == "dtype"] for b, c in calls]
        return bool(texts) and all(found and found[0].endswith(f".{_BFLOAT16}") for found in texts)

    def autocast_calls(self, event: Event) -> Iterator[tuple[str, f.Call]]:
        for statement in statements(self.flow.scope(event.frame).body):
            for context, _ in statement.items if isinstance(statement, f.With) else ():
                if isinstance(context, f.Call) and last_name(context.func) == "autocast":
                    yield event.frame.path, context

    # Checkpoints

    def checkpoints(self, related: tuple[Event, ...]) -> Iterator[Defect]:
        """Optimizer state saved or loaded where the scaler's is not, and scaler state that old files do not have."""
        steps = [e for e in related if e.kind == "step" and e.detail == "scaler"]
        if not steps:
            return
        found = list(self.without_scaler(related, steps[0]))
        # What is loaded must have been saved, and what is saved be loaded.
        exact = all(defect.repair is not None for defect in found)
        yield from found if exact else (replace(defect, repair=None) for defect in found)
        used = {scaler for step in steps for scaler in self.receivers(step)}
        for event in _first(e for e in self.kinds.get("scaler_load", ()) if used & set(e.values)):
            yield from self.demanded(event)

    def without_scaler(self, related: tuple[Event, ...], step: Event) -> Iterator[Defect]:
        """Optimizer state saved or loaded where the scaler's is not."""
        for event in _first(e for e in related if e.kind in ("save", "load")):
            if event.kind == "save" and not _keeps(event):
                continue
            counterpart = "scaler_save" if event.kind == "save" else "scaler_load"
            if not any(_in_function_of(event, e) for e in self.kinds.get(counterpart, ())):
                kind = "checkpoint-without-scaler-state" if event.kind == "save" else "load-without-scaler-state"
                yield Defect(kind, event.anchor, "", (), self.storing(event, step))

    def storing(self, event: Event, step: Event) -> Repair | None:
        """The dict that the scaler's state joins, or the statement after which it is loaded, and the scaler's name."""
        name, _ = call_parts(self.flow, step)
        facts = self.flow.files[event.frame.path]
        if not self.surely_there(name, step, event) or self.read_whole(event):
            return None
        if event.kind == "save":
            return Repair(event.anchor, (name,)) if event.detail in ("dict", "call") else None
        argument = first_argument(event.node) if isinstance(event.node, f.Call) else None
        whole = isinstance(event.statement, f.Evaluate) and event.statement.value is event.node
        if not (whole and isinstance(argument, f.Subscript) and isinstance(argument.value, f.Name)):
            return None
        return Repair(facts.anchor(event.statement), (name, facts.text(argument.value.span)))

    def read_whole(self, event: Event) -> bool:
        """Whether the dict that is saved, or that the state is loaded from, is gone over key by key."""
        loaded = first_argument(event.node) if isinstance(event.node, f.Call) and event.kind == "load" else None
        holder = event.node if loaded is None else loaded
        return any(self.whole_reads.of(value) is not None for value in self.flow.evaluate(holder, event.frame))

    def surely_there(self, name: str, step: Event, event: Event) -> bool:
        """Whether a scaler's name means the same at an event as at its step, and is always bound to a scaler."""
        if event.frame.path != step.frame.path or not isinstance(step.node, f.Call):
            return False
        assert isinstance(step.node.func, f.Attribute)
        receiver = step.node.func.value
        values = self.flow.evaluate(receiver, step.frame)
        made = self.kinds.get("scaler", ())
        if not values or not all(map(is_scaler, values)) or any(map(self.switches.conditional, made)):
            return False
        if any(isinstance(v, NoneValue) for v in values):
            return False
        if isinstance(receiver, f.Name):
            home = self.flow.variables.home
            return home(event.frame, name) is home(step.frame, name) and self.early_enough(event)
        scope, other = self.flow.scope(event.frame), self.flow.scope(step.frame)
        return name.startswith("self.") and scope.parent == other.parent and scope.kind == other.kind == "function"

    def early_enough(self, event: Event) -> bool:
        """Whether the scalers of a run are made before an event."""
        made = [e.number for e in of_kinds(self.kinds, "scaler", event.root)]
        return bool(made) and min(made) < event.number

    def demanded(self, event: Event) -> Iterator[Defect]:
        """A load of scaler state by a key that checkpoints from before do not have."""
        argument = first_argument(event.node) if isinstance(event.node, f.Call) else None
        if not isinstance(argument, f.Subscript) or not isinstance(argument.index, f.Constant):
            return
        facts = self.flow.files[event.frame.path]
        key, holder = facts.text(argument.index.span), facts.text(argument.value.span)
        if any(key in test for test in (*self.conditions(event), *self.ruled_out(event))) or self.attempted(event):
            return
        whole = isinstance(event.statement, f.Evaluate) and isinstance(argument.value, f.Name)
        repair = Repair(facts.anchor(event.statement), (key, holder)) if whole else None
        yield Defect("scaler-state-demanded", event.anchor, "", (), repair)

    def attempted(self, event: Event) -> bool:
        """Whether an event may fail without stopping its function."""
        frame, span = event.stack[-1]
        return any(isinstance(block[i], f.Try) for block, i in path_to(self.flow.scope(frame).body, span))

    def ruled_out(self, event: Event) -> Iterator[str]:
        """Texts of what was asserted, or else left the function, before an event."""
        frame, span = event.stack[-1]
        facts = self.flow.files[frame.path]
        for block, position in path_to(self.flow.scope(frame).body, span):
            for before in block[:position]:
                if isinstance(before, f.Simple) and before.kind == "Assert":
                    yield facts.text(before.span)
                elif isinstance(before, f.Branch) and any(arm and isinstance(arm[-1], _LEAVING) for arm in before.arms):
                    yield facts.text(before.test.span)

    def conditions(self, event: Event) -> list[str]:
        """Texts of the tests around an event in its own function."""
        return self.switches.tests(event.frame, event.stack[-1][1])


def _first(events: Iterable[Event]) -> list[Event]:
    found: dict[Anchor, Event] = {}
    for event in events:
        found.setdefault(event.anchor, event)
    return [found[anchor] for anchor in sorted(found)]


def _keeps(event: Event) -> bool:
    """Whether optimizer state is stored here, in a dict or a file."""
    if event.detail == "state":
        return isinstance(event.statement, f.Assign) and isinstance(event.statement.targets[0], f.Subscript)
    if event.detail == "each":
        return not any(isinstance(part, f.Mapping | f.Elements | f.Comprehension) for part in event.parents)
    return event.detail in ("dict", "call", "alone")


def _in_function_of(event: Event, other: Event) -> bool:
    """Whether another event happens in an event's function, or in one called there: a class of its own may wrap the
    scaler and hand on its state."""
    frames = [other.frame, *(frame for frame, _ in other.stack[-2:-1])]
    return any((frame.path, frame.scope) == (event.frame.path, event.frame.scope) for frame in frames)
