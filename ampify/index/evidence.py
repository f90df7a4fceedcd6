"""What each kind of site acts on, and the chain of evidence of each of these objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ampify.index.classify import Classifier
from ampify.index.events import Event
from ampify.index.positions import Rest, hop
from ampify.index.syntax import first_argument
from ampify.index.values import Container, Derived, Frame, Instance, Opaque, Parameters, State, Value, ordered
from ampify.index.ways import Ways
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.evidence import Chain, Hop
from ampify.model.site import Site

# Objects told of for a site; the others are counted.
MOST_CHAINS = 6
# What stands in an event's detail if it acts on its first argument.
GIVEN = ("scaler", "stranger", "function", "masters")
FOLLOWED = (Instance, Opaque, Derived, Parameters, State)


class Evidence:
    """The chains of all sites of a traced program, made when asked for."""

    def __init__(self, classify: Classifier, events: Mapping[Anchor, list[Event]]) -> None:
        self.classify = classify
        self.events = events
        self.ways = Ways(classify.flow)

    def chains(self, anchor: Anchor, kinds: Iterable[str]) -> tuple[Chain, ...]:
        """The chains of the objects that the events of these kinds at a place act on, in the order of the runs."""
        found: dict[Chain, None] = {}
        wanted = tuple(kinds)
        seen: set[tuple[object, ...]] = set()
        for event in self.events.get(anchor, ()):
            if event.kind in wanted and (event.frame, event.values) not in seen:
                seen.add((event.frame, event.values))
                found.update(dict.fromkeys(self.of_event(event)))
        feeding = [step for e in self.events.get(anchor, ()) if e.kind == "backward" for step in e.feeds.values()]
        for step in {(step.anchor, step.frame, step.values): step for step in feeding}.values():
            there = hop(step.node, step.frame, "stepped")
            found.update({Chain(c.object, (there, *c.hops)): None for c in self.of_event(step)})
        return shortened(tuple(found))

    def named(self, site: Site) -> tuple[Chain, ...]:
        """The chains of a site that is one by its name alone, in the frames that run its place."""
        path, span = site.anchor.path, (*site.anchor.start, *site.anchor.end)
        found: dict[Chain, None] = {}
        for scope in self.ways.flow.files[path].scopes:
            for frame in self.ways.flow.frames_of.get((path, scope.index), ()):
                for node in self.ways.nodes_at(frame, span):
                    if node.kind == site.anchor.kind:
                        found.update(dict.fromkeys(self.of_node(site, node, frame)))
        return shortened(tuple(found))

    def of_node(self, site: Site, node: f.Expr, frame: Frame) -> Iterator[Chain]:
        if site.kind == "load" and isinstance(node, f.Call) and node.args:
            yield Chain(self.ways.looking.text(node.args[0], frame), (hop(node, frame, "read from a file"),))
            return
        detail = "function" if site.kind in ("save", "clip") else ""
        nothing = f.Simple(node.span, "Pass", ())
        yield from self.of_event(
            Event(site.kind, node, site.anchor, frame, nothing, (), frozenset(), 0, 0, detail=detail)
        )

    def of_event(self, event: Event) -> Iterator[Chain]:
        """One chain for each object that an event acts on."""
        for expr in subjects(event):
            text = self.ways.looking.text(expr, event.frame)
            targets = self.targets(expr, event)
            for value, rest in targets:
                hops = self.ways.way(expr, event.frame, value, rest)
                # `model.parameters()` at the site says itself that it comes from `model.parameters()`.
                yield Chain(text, hops[1:] if len(hops) > 1 and hops[0].how == text else hops)
            if not targets:
                yield Chain(text, self.ways.unknown(expr, event.frame))

    def targets(self, expr: f.Expr, event: Event) -> list[tuple[Value, Rest]]:
        """The objects that an expression stands for at an event, those in containers by the way into them."""
        acted = frozenset(event.values) if event.kind in ("step", "load") else frozenset()
        if event.kind == "save":
            acted = frozenset(v for v in self.ways.values(expr, event.frame) if isinstance(v, State))
        found: list[tuple[Value, Rest]] = []
        for value in ordered(self.ways.values(expr, event.frame)):
            if isinstance(value, FOLLOWED) and (value in acted or not acted):
                found.append((value, ()))
            elif isinstance(value, Container):
                for field, held in self.ways.looking.elements(value):
                    inside = [v for v in ordered(held) if isinstance(v, FOLLOWED) and (v in acted or not acted)]
                    found += [(value, ((field, v),)) for v in inside]
        return (self.trained(found) if event.kind == "backward" else found)[: MOST_CHAINS + 1]

    def trained(self, targets: list[tuple[Value, Rest]]) -> list[tuple[Value, Rest]]:
        """Of what a loss comes from, the tensors of the models that are trained, each once; all if there are none."""
        found: dict[frozenset[Value], tuple[Value, Rest]] = {}
        for value, rest in targets:
            models = self.classify.entities.modules(frozenset((rest[-1][1] if rest else value,)))
            if models & self.classify.trained:
                found.setdefault(models & self.classify.trained, (value, rest))
        return list(found.values()) or targets


def subjects(event: Event) -> tuple[f.Expr, ...]:
    """The expressions that stand for what an event acts on."""
    node = event.node
    match node:
        case f.Attribute():
            return (node.value,)
        case f.Mapping():
            return tuple(value for value in node.values if is_state(value)) or (node,)
        case f.Call() if event.kind == "save" and is_state(node):
            return (node,)
        case f.Call() if event.kind == "save" and event.detail == "call":
            return tuple(value for _, value in node.keywords if is_state(value)) or (node,)
        case f.Call():
            given = event.detail in GIVEN or event.kind in ("clip", "wrap", "save")
            if isinstance(node.func, f.Attribute) and not given:
                return (node.func.value,)
            return (first_argument(node) or node.func,)
    return (node,)


def is_state(expr: f.Expr) -> bool:
    """Whether an expression asks for a state by its name; what a dict holds besides is no object of a site."""
    return isinstance(expr, f.Call) and isinstance(expr.func, f.Attribute) and expr.func.attr == "state_dict"


def shortened(chains: tuple[Chain, ...]) -> tuple[Chain, ...]:
    """The first chains, and how many more there are."""
    if len(chains) <= MOST_CHAINS:
        return chains
    more = len(chains) - MOST_CHAINS + 1
    first = chains[: MOST_CHAINS - 1]
    last = first[-1].hops[-1]
    return (*first, Chain(f"{more} or more other objects", (Hop(last.path, last.line, "left out", lost=True),)))


def unmet(anchor: Anchor, why: str) -> tuple[Chain, ...]:
    """The evidence of a site at which no run arrives: where that is told, there is no object to follow."""
    return (Chain("", (Hop(anchor.path, anchor.line, why, lost=True),)),)
