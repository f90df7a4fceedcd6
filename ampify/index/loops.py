"""Puts the events of all runs together into training loops and the ledger of sites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from ampify.index import handed_steps
from ampify.index.assembly import Assembly
from ampify.index.bystanders import bystanders
from ampify.index.cast_reach import reached, ready
from ampify.index.events import Event, at_places
from ampify.index.evidence import Evidence, unmet
from ampify.index.flow import Flow
from ampify.index.grouping import group
from ampify.index.listed import Listing, by_path
from ampify.index.states import stores
from ampify.index.syntax import expressions, in_order, statements
from ampify.index.trace import Trace
from ampify.index.values import Derived, External, Value
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.project import Obstacle, TrainingLoop
from ampify.model.settings import Target
from ampify.model.site import Site, SiteKind

SITES: dict[str, SiteKind] = {
    "backward": "backward",
    # A method of the project's own: what counts is the backward inside it.
    "backward_call": "backward",
    "step": "step",
    "unknown_step": "step",
    "zero_grad": "zero_grad",
    "clip": "clip",
    "grad_read": "grad_read",
    "save": "save",
    "load": "load",
    "wrap": "wrap",
}
# Keeps gradients by context, out of all parameters' `grad`.
CONTEXTUAL = "torch.distributed.autograd"
KEPT = f"{CONTEXTUAL} keeps the gradients in its context, where no scaler finds them"
UNMET = "no run of the files given gets here"


class Loops:
    """The result of the index: loops, sites and obstacles of a traced project."""

    def __init__(self, flow: Flow, trace: Trace, target: Target = "runtime") -> None:
        self.target: Target = target
        self.flow = flow
        self.trace = trace
        self.entities = trace.classify.entities
        self.loops: list[TrainingLoop] = []
        self.obstacles: list[Obstacle] = []
        self._loop_of: dict[Anchor, str] = {}
        self._idle: dict[Anchor, str] = {}
        # Steps that a backward may wait for, with that backward.
        self._waiting: dict[Anchor, Anchor] = {}
        self._models: dict[str, frozenset[Value]] = {}

    def find(self) -> None:
        """Fills `loops` and `obstacles`."""
        assembly = Assembly(self.flow, self.trace, self.target)
        fed: dict[str, frozenset[Value]] = {}
        events: dict[str, tuple[Event, ...]] = {}
        for backwards, optimizers in group(self.trace.events):
            related = tuple(self.related(backwards, optimizers))
            loop, obstacles = assembly.loop(backwards, optimizers, related)
            self.loops.append(loop)
            fed[loop.id] = optimizers
            events[loop.id] = related
            self._models[loop.id] = frozenset(m for o in optimizers for m in self.entities.trained(o))
            for event in related:
                self._loop_of.setdefault(event.anchor, loop.id)
            self.obstacles += obstacles
            self.obstacles += [
                Obstacle("manual-update", e.anchor, "", loop=loop.id)
                for e in related
                if e.kind == "grad_read" and updates_in_place(e) and self.trained_by_hand(e)
            ]
        if self.target == "runtime":
            self.obstacles += bystanders(self.trace.names.moments, self.loops, fed, assembly.initializing.spots)
        self.idle_backwards()
        if self.target == "runtime":
            idle = [e for e in self.trace.events if e.anchor in self._idle and e.detail != "foreign"]
            self.loops = [self.with_reach(loop, events, idle) for loop in self.loops]
        self.unfed_steps()
        self.obstacles = list(dict.fromkeys(self.obstacles))

    def with_reach(
        self, loop: TrainingLoop, events: Mapping[str, tuple[Event, ...]], idle: Iterable[Event]
    ) -> TrainingLoop:
        """A loop with what runs under the casts of its `amp.initialize`; `events` are those of each loop, `idle` the
        backwards of none."""
        since = ready(events[loop.id])
        others = tuple(other for other in events if other != loop.id and reached(since, events[other], self.flow))
        found = reached(since, idle, self.flow)
        unclear, unscaled = (tuple(a for a in found if bool(self._idle[a]) is refused) for refused in (True, False))
        return replace(loop, reaches=others, unclear=unclear, unscaled=unscaled)

    def related(self, backwards: tuple[Event, ...], optimizers: frozenset[Value]) -> Iterator[Event]:
        """Events that belong to the loop of these backwards: by optimizer, by model, or by what is pending there."""
        members = frozenset(backwards)
        places = frozenset(e.anchor for e in backwards)
        models = frozenset(m for o in optimizers for m in self.entities.trained(o))
        loops = frozenset((e.root, loop) for e in backwards for loop in e.loops)
        roots = frozenset(e.root for e in backwards)

        def live(event: Event) -> bool:
            return any(e in members or e.anchor in places for e in event.live)

        for event in self.trace.events:
            acts = frozenset(event.values)
            running = any((event.root, loop) in loops for loop in event.loops)
            match event.kind:
                case "backward":
                    belongs = event.anchor in places or (event.detail == "foreign" and running)
                case "step" | "zero_grad" | "build" | "load" | "initialize":
                    belongs = bool(acts & optimizers)
                case "save":
                    belongs = bool(acts & (optimizers | models))
                case "move" | "wrap":
                    belongs = bool(acts & models)
                case "clip":
                    belongs = live(event)
                case "grad_read":
                    belongs = any(e.anchor in places for e in event.latest) and live(event)
                case "unknown_step" | "autograd_grad":
                    belongs = running or live(event)
                case "backward_call":
                    belongs = event.root in roots
                case "cross_entropy" | "hook" | "older_amp" | "shard":
                    belongs = event.root in roots
                case "half" | "double":
                    belongs = event.root in roots and (bool(acts & models) or event.kind == "half")
                case _:
                    belongs = False
            if belongs:
                yield event

    def idle_backwards(self) -> None:
        """Backwards that feed no step: no training, or a step that is not understood."""
        fed = {e.anchor for e in self.trace.events if e.kind == "backward" and e.feeds}
        for event in self.trace.events:
            if event.kind == "backward" and event.anchor not in fed and event.anchor not in self._idle:
                kind, detail, at = self.why_idle(event)
                self._idle[event.anchor] = kind
                if kind:
                    related = (
                        ((at, "this step" if kind == "backward-without-step" else "what follows it"),) if at else ()
                    )
                    source = self.source(event)
                    loops: list[str | None] = [loop for loop, models in self._models.items() if source & models]
                    hint = ""
                    if kind == "backward-without-step" and at:
                        hint = handed_steps.HINT
                        self._waiting.setdefault(at, event.anchor)
                    self.obstacles += [
                        Obstacle(kind, event.anchor, detail, related, loop, hint) for loop in loops or [None]
                    ]

    def why_idle(self, event: Event) -> tuple[str, str, Anchor | None]:
        """The rule that refuses a backward without a step ("" if it takes no part in training)."""
        if event.detail == "foreign":
            contextual = any(isinstance(v, External) and v.dotted.startswith(CONTEXTUAL) for v in event.values)
            return "foreign-backward", KEPT if contextual else "", None
        if self.trace.exhausted or self.flow.exhausted:
            return "analysis-budget", self.flow.shortfall, None
        after = [e for e in self.trace.events if any(b.anchor == event.anchor for b in e.live)]
        for later in after:
            if later.kind == "unknown_step":
                return "unresolved-optimizer", later.detail, later.anchor
        for later in after:
            if later.kind == "grad_read" and updates_in_place(later) and not self.attacks(event, later):
                return "manual-update", "", later.anchor
        cleared = any(later.kind == "zero_grad" and later.values for later in after)
        looked_at = any(later.kind == "grad_read" and later.detail == "other" for later in after)
        out_of_sight = ((step.anchor, optimizer) for step in self.unfed for optimizer in step.values)
        for step, words in (
            (self.awaited(event, out_of_sight), handed_steps.OUT_OF_SIGHT),
            (self.awaited(event, self.handed), handed_steps.HANDED_ON),
        ):
            if step is not None:
                return "backward-without-step", handed_steps.located(words, step, event.anchor), step
        return ("", "", None) if cleared or looked_at else ("backward-without-step", "", None)

    def awaited(self, event: Event, steps: Iterable[tuple[Anchor, Value]]) -> Anchor | None:
        """Where some step, that no backward in view feeds, could take the gradients of a backward."""
        source = self.source(event)
        for anchor, optimizer in steps:
            trained = self.entities.trained(optimizer)
            if not source or not trained or source & trained:
                return anchor
        return None

    @cached_property
    def handed(self) -> tuple[tuple[Anchor, Value], ...]:
        """Steps that are handed on, each with its optimizer."""
        return tuple(handed_steps.handed_on(self.flow, self.entities))

    def source(self, event: Event) -> frozenset[Value]:
        """The modules that the loss of a backward comes from, as far as that is known."""
        return self.entities.modules(frozenset(v for v in event.values if isinstance(v, Derived)))

    @staticmethod
    def trained_by_hand(read: Event) -> bool:
        """Whether an update in place changes what training changes: a parameter, or what a loss in training reaches."""
        return read.detail == "parameter" or any(e.feeds for e in read.latest)

    def attacks(self, event: Event, read: Event) -> bool:
        """Whether an update in place changes the input of a model that an optimizer trains elsewhere."""
        return read.detail != "parameter" and bool(self.source(event) & self.trace.classify.trained)

    def unfed_steps(self) -> None:
        """Steps that consume no backward in view. A loop whose loss comes from what such a step trains is not migrated:
        when the step takes place is not understood, and it may take the loop's gradients."""
        loops = {e for b in self.trace.events if b.kind == "backward" for e in b.feeds}
        for event in self.unfed:
            if event.anchor not in self._loop_of and not (frozenset(event.values) & loops):
                reached = dict.fromkeys(self._loop_of[b.anchor] for b in self.trained_beside(event))
                waiting = self._waiting.get(event.anchor)
                hint = handed_steps.located(handed_steps.HINT_THERE, waiting, event.anchor) if waiting else ""
                for loop in reached or (None,):
                    self.obstacles.append(Obstacle("step-without-backward", event.anchor, "", loop=loop, hint=hint))
        for event in self.trace.events:
            if event.kind == "unknown_step" and event.anchor not in self._loop_of:
                self.obstacles.append(Obstacle("unresolved-optimizer", event.anchor, event.detail))

    def trained_beside(self, step: Event) -> Iterator[Event]:
        """Backwards that feed other optimizers, and whose loss comes from modules that this step trains."""
        trained = frozenset(m for optimizer in step.values for m in self.entities.trained(optimizer))
        for event in self.trace.events:
            beside = event.kind == "backward" and event.anchor in self._loop_of
            if beside and event.feeds and self.source(event) & trained:
                yield event

    @cached_property
    def unfed(self) -> tuple[Event, ...]:
        """Steps at places where none consumes a backward in view, one a place."""
        fed = {s.anchor for e in self.trace.events if e.kind == "backward" for s in e.feeds.values()}
        steps = {e.anchor: e for e in self.trace.events if e.kind == "step"}
        return tuple(event for anchor, event in steps.items() if anchor not in fed)

    def explained(self, sites: Iterable[Site]) -> tuple[Site, ...]:
        """Sites with their evidence."""
        evidence = Evidence(self.trace.classify, at_places(self.trace.events))
        kinds = {kind: tuple(k for k, named in SITES.items() if named == kind) for kind in SITES.values()}
        chains = ((site, evidence.chains(site.anchor, kinds[site.kind]) or evidence.named(site)) for site in sites)
        return tuple(replace(site, evidence=found or unmet(site.anchor, UNMET)) for site, found in chains)

    def listed(self, sites: Iterable[Site]) -> tuple[Site, ...]:
        """What else looks like a site in the files of the program, given those that are; no rule decides on it."""
        known = by_path(sites)
        trained = {model: loop for loop, models in self._models.items() for model in models}
        listing = Listing(self.flow, self.trace.events, self._loop_of, trained)
        return tuple(site for path in sorted(self.flow.leading) for site in listing.sites(path, known.get(path, ())))

    def sites(self) -> tuple[Site, ...]:
        """The ledger's sites, each place once, in the order of the text."""
        found: dict[tuple[Anchor, SiteKind], Site] = {}
        for event in self.trace.events:
            kind = SITES.get(event.kind)
            if kind is None or (event.kind == "save" and event.detail == "state" and not stores(event)):
                continue
            loop = self._loop_of.get(event.anchor)
            found.setdefault((event.anchor, kind), Site(kind, event.anchor, loop, self.trains(event, loop)))
        for anchor in self.unseen():
            found.setdefault((anchor, "backward"), Site("backward", anchor, None))
        return tuple(sorted(found.values(), key=lambda s: (s.anchor, s.kind)))

    def unseen(self) -> Iterator[Anchor]:
        """Backwards in statements that no run gets to, or got to in the time there is: nothing is known of them."""
        for path in sorted(self.flow.leading):
            facts = self.flow.files[path]
            scopes = (scope for scope in facts.scopes if not self.entities.differentiates(path, scope))
            for statement in (s for scope in scopes for s in statements(scope.body)):
                if self.trace.exhausted or (path, statement.span) not in self.trace.met:
                    nodes = (node for expression in expressions(statement) for node, _ in in_order(expression))
                    yield from (facts.anchor(node) for node in nodes if _calls_backward(node))

    def trains(self, event: Event, loop: str | None) -> bool:
        """Whether a site takes part in training as far as the flow shows."""
        if loop is not None:
            return True
        if event.kind == "backward":
            return self._idle.get(event.anchor, "") != ""
        return event.kind in ("step", "unknown_step")


def updates_in_place(event: Event) -> bool:
    """Whether a gradient is read to change a parameter: in `w -= lr * w.grad`, or as an argument of `add_`."""
    if isinstance(event.statement, f.Assign) and event.statement.kind == "AugAssign":
        target = event.statement.targets[0]
        same = _root(target) == _root(event.node) is not None
        return same and not _within(event.node, event.statement.targets)
    chain = (*event.parents, event.node)
    return event.detail == "parameter" and any(
        isinstance(call, f.Call)
        and isinstance(call.func, f.Attribute)
        and part is not call.func
        and call.func.attr.endswith("_")
        and not _holds_grad(call.func)
        for call, part in pairwise(chain)
    )


def _calls_backward(node: f.Expr) -> bool:
    return isinstance(node, f.Call) and isinstance(node.func, f.Attribute) and node.func.attr == "backward"


def _root(expr: f.Expr) -> str | None:
    """The name that a chain of attributes starts with."""
    while isinstance(expr, f.Attribute):
        expr = expr.value
    return expr.id if isinstance(expr, f.Name) else None


def _within(node: f.Expr, targets: tuple[f.Expr, ...]) -> bool:
    return any(part is node for target in targets for part, _ in in_order(target))


def _holds_grad(function: f.Expr) -> bool:
    """Whether an in-place method is called on a gradient itself."""
    return any(isinstance(part, f.Attribute) and part.attr == "grad" for part, _ in in_order(function))
