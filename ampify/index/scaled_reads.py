"""Clips and reads of gradients that a GradScaler has scaled, and nothing has unscaled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ampify.index.events import Event, of_kinds
from ampify.index.flow import Flow
from ampify.index.strays import Strays
from ampify.index.switches import Switches
from ampify.index.syntax import first_argument, is_false, path_to
from ampify.index.values import Instance, Value
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.native import Defect, Repair


def is_scaled(event: Event) -> bool:
    """Whether a backward runs on what some `scale(loss)` returned."""
    return any(isinstance(v, Instance) and v.dotted.rpartition(".")[2] == "scale" for v in event.values)


def call_parts(flow: Flow, step: Event) -> tuple[str, str]:
    """The scaler and the optimizer of `scaler.step(optimizer)`, as spelled there."""
    facts = flow.files[step.frame.path]
    assert isinstance(step.node, f.Call)
    scaler = facts.text(step.node.func.value.span) if isinstance(step.node.func, f.Attribute) else ""
    optimizer = first_argument(step.node) if len(step.node.args) + len(step.node.keywords) == 1 else None
    return scaler, facts.text(optimizer.span) if optimizer is not None else ""


@dataclass(frozen=True, slots=True)
class Mended:
    """What is told of a clip, and the optimizers that its repair unscales; none where it is not known whose gradients
    the clip takes."""

    defect: Defect
    optimizers: frozenset[Value]


@dataclass(frozen=True, slots=True)
class ScaledReads:
    """Reads loops off the events of a trace, by kind."""

    flow: Flow
    switches: Switches
    strays: Strays
    kinds: Mapping[str, list[Event]]

    def defects(self, related: tuple[Event, ...]) -> Iterator[Defect]:
        """Clips and reads of gradients that are still scaled; what the repair of a clip mends is told with it."""
        mended: dict[Event, Mended] = {}
        for event in self.readers(related):
            waiting = [b for b in event.latest if is_scaled(b) and not self.switches.apart(event, b)]
            missing = self.missing(event, waiting) if waiting else None
            if missing is None:
                continue
            before = next((e for e in self.between(waiting, event, mended) if missing <= mended[e].optimizers), None)
            if before is not None:
                told = mended[before].defect
                told = replace(told, related=(*told.related, (event.anchor, "and so are these")))
                mended[before] = replace(mended[before], defect=told)
                continue
            kind = "clip-before-unscale" if event.kind == "clip" else "gradient-read-before-unscale"
            repair = self.unscaling(event, waiting, missing) if event.kind == "clip" else None
            defect = Defect(kind, event.anchor, "", ((waiting[0].anchor, "scaled here"),), repair)
            if repair is None:
                yield defect
            else:
                mended[event] = Mended(defect, missing)
        yield from (told.defect for told in mended.values())

    def readers(self, related: tuple[Event, ...]) -> list[Event]:
        """The first clip or read at each place whose outcome a scale would change."""
        found: dict[Anchor, Event] = {}
        for event in related:
            averaged = event.kind == "grad_read" and self.averages(event)
            read = event.kind == "grad_read" and event.detail == "parameter" and not event.only_asks and not averaged
            if event.kind == "clip" or read:
                found.setdefault(event.anchor, event)
        return [found[anchor] for anchor in sorted(found)]

    def missing(self, event: Event, waiting: list[Event]) -> frozenset[Value] | None:
        """The optimizers whose gradients are read while they are scaled, none of them if it is not known whose those
        are; None if all are unscaled."""
        done = self.between(waiting, event, self.unscalings(event.root))
        unscaled = frozenset(o for e in done for o in e.values)
        read = self.read_of(event, waiting)
        if not read or any(not e.values for e in done):
            return None if done else read
        # Of parameters that optimizers share out among them it is not known which are read.
        share = self.strays.entities.share
        left = frozenset(o for o in read if o not in unscaled and not any(share(o, other) for other in unscaled))
        return left or None

    def read_of(self, event: Event, waiting: list[Event]) -> frozenset[Value]:
        """The optimizers that a scaler steps, as far as they are known to have what is clipped or read."""
        taken = self.strays.taken(frozenset(event.values), set())
        fed = {o for b in waiting for o, step in b.feeds.items() if step.detail == "scaler"}
        return frozenset(o for o in fed if any(self.has(o, owner) for owner in taken))

    def has(self, optimizer: Value, owner: Value) -> bool:
        """Whether an optimizer was given parameters of a module, or of a part of it, or of what it is a part of."""
        entities = self.strays.entities
        given = entities.owners(optimizer)
        return bool(given & entities.around(owner)) or any(owner in entities.around(part) for part in given)

    def averages(self, event: Event) -> bool:
        """Whether gradients are read to be averaged over processes, which a scale does not disturb."""
        facts = self.flow.files[event.frame.path]
        return any("reduce" in facts.text(s.span) for s in self.flow.scope(event.frame).body)

    def unscalings(self, root: int) -> Iterator[Event]:
        """What unscales gradients in a run: `unscale_`, and a step that is not handed the scale to do so itself."""
        for event in of_kinds(self.kinds, "unscale step", root):
            if event.kind == "unscale" or (event.detail == "scaler" and not any(map(self.is_fused, event.values))):
                yield event

    def is_fused(self, optimizer: Value) -> bool:
        """Whether an optimizer may unscale within its own kernel, so that the gradients stay as they were."""
        made = self.flow.created.get(optimizer) if isinstance(optimizer, Instance) else None
        return made is None or any(n in ("fused", None) and not is_false(v) for n, v in made[1].keywords)

    def between(self, backwards: list[Event], event: Event, others: Iterable[Event]) -> list[Event]:
        """Those of some events that come between backwards and another event of the same run."""
        places = {b.anchor for b in backwards}
        rounds = [e.number for e in of_kinds(self.kinds, "backward", event.root) if e.anchor in places]
        last = max((number for number in rounds if number < event.number), default=-1)
        return [e for e in others if e.root == event.root and last < e.number < event.number]

    def unscaling(self, clip: Event, waiting: list[Event], missing: frozenset[Value]) -> Repair | None:
        """Where `scaler.unscale_(optimizer)` goes: before the clip, if the step stands beside it."""
        after = [e for b in waiting for e in b.feeds.values() if e.detail == "scaler" and e.number > clip.number]
        after = [e for e in after if not missing or missing & frozenset(e.values)]
        texts = {call_parts(self.flow, e) for e in after if e.frame is clip.frame}
        whole = isinstance(clip.statement, f.Evaluate | f.Assign)
        same = [e for e in after if self.block(e) is not None and self.block(e) is self.block(clip)]
        if len(texts) != 1 or not same or not whole:
            return None
        (parts,) = texts
        return Repair(self.flow.files[clip.frame.path].anchor(clip.statement), parts) if all(parts) else None

    def block(self, event: Event) -> tuple[f.Stmt, ...] | None:
        """The block that an event's statement is in."""
        path = path_to(self.flow.scope(event.frame).body, event.statement.span)
        return path[-1][0] if path else None
