"""Where `amp.initialize` stands or goes for all that one loop trains, run by run."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Final, TypeAlias

from ampify import catalog
from ampify.index.early_wraps import EarlyWraps
from ampify.index.events import Event
from ampify.index.flags import Flags
from ampify.index.flow import Flow
from ampify.index.grouping import Groups
from ampify.index.moments import Spot, apart
from ampify.index.placing import Ingredients, Placing
from ampify.index.remedies import PLACE_HINTS
from ampify.index.switches import Switches
from ampify.index.syntax import in_order, is_called
from ampify.index.trace import Trace
from ampify.index.values import NOTHING, Container, Instance, Opaque, Parameters, Value, Values, ordered
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.project import Initialize, Obstacle

NOT_FOUND: Final = "the model it trains was not found"
NOWHERE: Final = "none was found where one function names both the model and this optimizer once they are ready"

Places: TypeAlias = dict[tuple[Anchor, tuple[str, ...], tuple[str, ...]], Initialize]


class Initializing:
    """Answers from a trace."""

    def __init__(self, flow: Flow, trace: Trace) -> None:
        self.flow = flow
        self.trace = trace
        self.entities = trace.classify.entities
        self.names = trace.names
        self.placing = Placing(flow, self.names)
        self.flags = Flags(flow, self.names)
        self.switches = Switches(flow)
        self.early_wraps = EarlyWraps(flow)
        # Where in the running program each place is.
        self.spots: dict[Anchor, list[Spot]] = {}
        # Optimizers that take another one's place while training.
        self.successors: set[Value] = set()

    def places(
        self, backwards: tuple[Event, ...], models: frozenset[Value], related: tuple[Event, ...], loop: str
    ) -> tuple[tuple[Initialize, ...], list[Obstacle]]:
        """The places for every run that trains, each once, and why there is none for some. `models` stand for what
        optimizers train of which that is not known."""
        found: Places = {}
        trouble: list[Obstacle] = []
        runs = [
            running
            for root in sorted({e.root for e in backwards})
            for running in together([e for e in backwards if e.root == root])
        ]
        real = [running for running in runs if not self.is_unmade(running)]
        for running in real or runs:
            reason = self.initialize(running, models, related, found)
            if reason is not None:
                at, detail = reason
                hint = PLACE_HINTS.get(detail, "")
                trouble.append(Obstacle("no-place-to-initialize", at.anchor, detail, loop=loop, hint=hint))
        return tuple(sorted(found.values(), key=lambda i: i.anchor)), trouble

    def initialize(
        self, running: list[Event], models: frozenset[Value], related: tuple[Event, ...], found: Places
    ) -> tuple[Event, str] | None:
        """Adds the places for backwards that run together; where and why, if there is none."""
        trained = frozenset(o for e in running for o in self.entities.reached(e))
        present = [e for e in related if e.kind == "initialize" and frozenset(e.values) & trained]
        for event in present:
            place = self.present(event, related)
            self.spots.setdefault(place.anchor, []).append(Spot.of(event))
            found.setdefault((place.anchor, place.models, place.optimizers), place)
        missing = trained - frozenset(v for e in present for v in e.values)
        if not missing:
            return None
        if any(self.holds_tensors(o) for o in missing):
            return running[0], "the optimizer holds tensors that are no parameters of a model"
        late = self.made_late(missing, running)
        if late is not None:
            return late, "the optimizer is made only after the first backward"
        ours = frozenset(m for o in missing for m in self.trained(o)) or models
        whole = self.placing.place(self.ingredients(missing, ours, running, related))
        placed = [whole] if whole else self.apart(missing, models, running, related)
        placed = placed or self.successive(missing, models, running, related)
        if not placed:
            return self.no_place(missing, ours, running, related)
        beside = next((e.anchor for e in present), None)
        for place, spot in placed:
            place = replace(place, flag=self.flags.find(spot), beside=beside)
            self.spots.setdefault(place.anchor, []).append(spot)
            found.setdefault((place.anchor, place.models, place.optimizers), place)
        return None

    def is_unmade(self, running: list[Event]) -> bool:
        """Whether these are backwards of an object whose optimizers no run builds, while the same code builds those of
        another: it is made for inference, say, and has none."""
        made = {o.place for o, builds in self.trace.builds.items() if builds and isinstance(o, Instance)}
        trained = [o for e in running for o in self.entities.reached(e)]
        never = [isinstance(o, Instance) and o.place in made and not self.trace.builds.get(o) for o in trained]
        return bool(never) and all(never)

    def apart(
        self, optimizers: frozenset[Value], models: frozenset[Value], running: list[Event], related: tuple[Event, ...]
    ) -> list[tuple[Initialize, Spot]]:
        """A place for each of several choices of which a run makes one (one of several classes, say); none if there is
        no choice, or no place for some."""
        choices = self.choices(optimizers)
        placed: list[tuple[Initialize, Spot]] = []
        for choice in choices if len(choices) > 1 else ():
            ours = frozenset(m for o in choice for m in self.trained(o)) or models
            fed = [e for e in running if choice & e.feeds.keys()]
            found = self.placing.place(self.ingredients(choice, ours, fed, related))
            if found is None:
                return []
            placed.append(found)
        return placed

    def successive(
        self, optimizers: frozenset[Value], models: frozenset[Value], running: list[Event], related: tuple[Event, ...]
    ) -> list[tuple[Initialize, Spot]]:
        """A place for those that are there before the first backward, and one behind each that takes over from them
        while training; none if there are no such, or no place for some."""
        first = min(e.number for e in running)
        builds = {o: [b for b in self.trace.builds.get(o, ()) if b.root == running[0].root] for o in optimizers}
        around = frozenset.intersection(*(b.loops for made in builds.values() for b in made or running))
        rounds = frozenset(loop for e in running for loop in e.loops) - around
        late = frozenset(o for o, bs in builds.items() if bs and all(b.number > first or b.loops & rounds for b in bs))
        early = optimizers - late
        if not late or not early:
            return []
        ours = frozenset(m for o in early for m in self.trained(o)) or models
        whole = self.placing.place(self.ingredients(early, ours, running, related))
        placed = [whole] if whole else self.apart(early, models, running, related)
        for optimizer in ordered(late) if placed else ():
            found = [self.placing.behind(build, self.trained(optimizer) or models) for build in builds[optimizer]]
            if None in found:
                return []
            placed += (one for one in found if one is not None)
        self.successors |= late if placed else NOTHING
        return placed

    def choices(self, optimizers: frozenset[Value]) -> list[frozenset[Value]]:
        """Optimizers put together unless one run cannot build both."""
        members = ordered(optimizers)
        groups = Groups()
        for one, other in combinations(members, 2):
            builds = ((a, b) for a in self.trace.builds.get(one, ()) for b in self.trace.builds.get(other, ()))
            if not all(apart(a, b, self.flow) for a, b in builds):
                groups.merge([one, other])
        found: dict[Hashable, set[Value]] = {}
        for optimizer in members:
            found.setdefault(groups.find(optimizer), set()).add(optimizer)
        return [frozenset(group) for group in found.values()]

    def no_place(
        self, optimizers: frozenset[Value], models: frozenset[Value], running: list[Event], related: tuple[Event, ...]
    ) -> tuple[Event, str]:
        """Where the trouble with a place is, and what it is."""
        at = self.first_build(optimizers, related) or running[0]
        if not models:
            return at, NOT_FOUND
        first = min(e.number for e in running)
        builds = [b for o in optimizers for b in self.trace.builds.get(o, ()) if b.root == running[0].root]
        later = min((b for b in builds if b.number > first), key=lambda b: b.number, default=None)
        if later is not None and len(optimizers) > 1:
            return later, "another optimizer is made here after the first backward"
        run = self.ingredients(optimizers, models, running, related)
        moved = self.placing.moved_inside(run)
        if moved is not None:
            return moved, "the model gets to its device only here, in the function that trains it"
        return at, NOWHERE

    def made_late(self, optimizers: frozenset[Value], running: Iterable[Event]) -> Event | None:
        """What builds an optimizer only when a backward that feeds it has run: a property read by its step, say."""
        for optimizer in ordered(optimizers):
            fed = [e for e in running if optimizer in e.feeds]
            builds = [b for b in self.trace.builds.get(optimizer, ()) if any(b.root == e.root for e in fed)]
            last = [max(n for n in self.rounds(e) if n < e.feeds[optimizer].number) for e in fed]
            if builds and fed and min(b.number for b in builds) > min(last):
                return builds[0]
        return None

    def rounds(self, backward: Event) -> list[int]:
        """The numbers of all rounds of a backward in one run: what is fed is fed by the first of them."""
        key = (backward.kind, backward.anchor, backward.frame, backward.root)
        rounds = [e.number for e in self.trace.events if (e.kind, e.anchor, e.frame, e.root) == key]
        return [*rounds, backward.number]

    def holds_tensors(self, optimizer: Value) -> bool:
        """Whether an optimizer was given values, and all of them known to be something else than parameters."""
        given = self.flow.store.read(optimizer, "params", None)
        inner = given | self.flow.elements(frozenset(v for v in given if isinstance(v, Container)))
        known = bool(inner) and not any(isinstance(v, Opaque) for v in inner)
        return known and not self.entities.trained(optimizer)

    def trained(self, optimizer: Value) -> frozenset[Value]:
        """The modules whose parameters an optimizer was given, less those that their names mean only later."""
        found = self.entities.trained(optimizer)
        builds = self.trace.builds.get(optimizer, ())
        if any("add_param_group" in facts.methods for facts in self.flow.files.values()):
            return found
        later = [self.later(build) for build in builds]
        found = found - frozenset.intersection(*later) if later else found
        return self.of_same_runs(found, builds)

    def of_same_runs(self, modules: frozenset[Value], builds: Iterable[Event]) -> frozenset[Value]:
        """Modules less those that are made in other runs alone than their optimizer: another script makes its own of
        the same class."""
        roots = {b.root for b in builds}
        made = {m: {b.root for b in self.trace.builds.get(m, ())} for m in modules}
        ours = frozenset(m for m, found in made.items() if not found or found & roots)
        return ours or modules

    def later(self, build: Event) -> frozenset[Value]:
        """Modules that an `x` of `x.parameters()` in a constructor's call means only after it, if it takes no other
        parameters."""
        spot = Spot.of(build)
        now, ever = NOTHING, NOTHING
        for node, parents in in_order(build.node):
            if isinstance(node, f.Attribute) and node.attr in catalog.PARAMETER_METHODS:
                held = self.held(node.value, spot)
                now, ever = now | held, ever | self.flow.evaluate(node.value, build.frame)
                if not held:
                    return NOTHING
            elif isinstance(node, f.Name | f.Attribute) and not is_called(node, parents):
                others = self.flow.evaluate(node, build.frame)
                if any(isinstance(v, Parameters | Container) for v in others):
                    return NOTHING
        return self.entities.modules(ever) - self.entities.modules(now)

    def held(self, expr: f.Expr, spot: Spot) -> Values:
        """What a name or its attribute may be at a place; nothing if it is another expression, or that is unknown."""
        moments = self.names.moments
        if isinstance(expr, f.Name):
            return moments.values(self.flow.variables.home(spot.frame, expr.id), expr.id, spot)
        if not isinstance(expr, f.Attribute):
            return NOTHING
        owners = self.held(expr.value, spot)
        if not all(isinstance(o, Instance) for o in owners):
            return NOTHING
        return NOTHING.union(*(moments.values(owner, expr.attr, spot) for owner in owners))

    def present(self, event: Event, related: tuple[Event, ...]) -> Initialize:
        statement = self.flow.files[event.frame.path].anchor(event.statement)
        assert isinstance(event.node, f.Call)
        facts = self.flow.files[event.frame.path]
        given = [facts.text(a.span) for a in event.node.args[:2]]
        conditional = self.switches.conditional(event)
        found = Initialize(statement, tuple(given[:1]), tuple(given[1:]), True, conditional=conditional)
        early = self.early_wraps
        return replace(found, level=early.level(event), early_wraps=early.before(event, related))

    @staticmethod
    def first_build(optimizers: frozenset[Value], related: Iterable[Event]) -> Event | None:
        builds = (e for e in related if e.kind == "build" and frozenset(e.values) & optimizers)
        return min(builds, key=lambda e: e.number, default=None)

    def ingredients(
        self,
        optimizers: frozenset[Value],
        models: frozenset[Value],
        backwards: list[Event],
        related: tuple[Event, ...],
    ) -> Ingredients:
        """What one run trains and what makes it ready; what it takes from a module it imports was built there."""
        root = backwards[0].root
        builds = []
        for optimizer in ordered(optimizers):
            events = [e for e in related if e.kind == "build" and optimizer in e.values]
            here = [e for e in events if e.root == root] or events
            builds += here[:1]
        first = min(e.number for e in backwards)
        runs = {root, *(b.root for b in builds)}
        moves = [e for e in related if e.kind == "move" and e.root in runs and frozenset(e.values) & models]
        model_builds = [e for e in self.trace.events if e.kind == "build" and frozenset(e.values) & models]
        return Ingredients(
            optimizers,
            models,
            tuple(builds),
            tuple(e for e in model_builds if e.root in runs),
            tuple(m for m in moves if m.number < first),
            tuple(backwards),
            tuple(self.favoured(builds)),
        )

    def favoured(self, builds: Iterable[Event]) -> Iterator[str]:
        """The model as the optimizer's constructor spells it: `x` of `x.parameters()`."""
        for build in builds:
            facts = self.flow.files[build.frame.path]
            for node, _ in in_order(build.node):
                if isinstance(node, f.Attribute) and node.attr in catalog.PARAMETER_METHODS:
                    yield facts.text(node.value.span)


def together(events: list[Event]) -> list[list[Event]]:
    """Backwards of one run, put together where they feed one optimizer or run in one loop statement."""
    groups = Groups()
    for event in events:
        groups.merge([event, *event.feeds, *(event.loops or {event.frame})])
    parts: dict[Hashable, list[Event]] = {}
    for event in events:
        parts.setdefault(groups.find(event), []).append(event)
    return list(parts.values())
