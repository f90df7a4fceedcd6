"""Gradient clips: whether the parameters they clip are just those that one optimizer steps."""

from __future__ import annotations

from ampify import catalog
from ampify.index.entities import Entities
from ampify.index.events import Event
from ampify.index.expressions import GENERATOR
from ampify.index.flow import Flow
from ampify.index.moments import Spot
from ampify.index.names import Names
from ampify.index.parameter_groups import ParameterGroups
from ampify.index.store import Write
from ampify.index.syntax import first_argument, in_order, inside, path_to
from ampify.index.values import NOTHING, Container, Frame, Instance, Parameters, Value, Values
from ampify.model import facts as f
from ampify.model.project import ClipCall


class Clips:
    """Reads clips off their events."""

    def __init__(self, flow: Flow, entities: Entities, names: Names) -> None:
        self.flow = flow
        self.entities = entities
        self.names = names
        self.groups = ParameterGroups(flow)

    def clip(self, event: Event, optimizers: frozenset[Value]) -> ClipCall:
        """A clip, with the optimizer that holds just the parameters it clips, if one can be named."""
        assert isinstance(event.node, f.Call)
        facts = self.flow.files[event.frame.path]
        spot = Spot.of(event)
        # None where a partial function has it already.
        parameters = first_argument(event.node)
        partial = parameters is not None and self.partial(parameters, event.frame, spot)
        clipped = frozenset() if partial else self.whole(frozenset(event.values))
        same = frozenset(o for o in optimizers if clipped and clipped in (self.held(o), self.shared_out(o)))
        # One run has one of those that several build.
        here = same & frozenset(o for backward in event.live | event.latest for o in backward.feeds)
        named = self.names.cover(spot, here or same, self.names.optimizers) if same else None
        text = named[0].text if named and len(named) == 1 and not named[0].optional else None
        return ClipCall(
            call=event.anchor,
            function=facts.anchor(event.node.func),
            function_text=facts.text(event.node.func.span),
            parameters=event.anchor if parameters is None else facts.anchor(parameters),
            optimizer=None if parameters is None else text,
            right=event.detail == "master",
        )

    def shared_out(self, optimizer: Value) -> frozenset[Value]:
        """The modules all of whose parameters, but for those that need no gradient, are in the groups that an optimizer
        was given; empty if these may hold others, too."""
        shared = self.groups.shared_out(self.flow.store.read(optimizer, "params", None))
        modules = frozenset(m for owner in shared for m in self.entities.unwrapped(owner))
        return modules if modules == self.entities.owners(optimizer) else frozenset()

    def held(self, optimizer: Value, *, single: bool = True, within: frozenset[Value] = NOTHING) -> frozenset[Value]:
        """The modules all of whose parameters an optimizer was given; empty if it may hold only some of them, or, with
        `single`, those of one of several modules."""
        made = self.flow.created.get(optimizer) if isinstance(optimizer, Instance) else None
        given = made[1].args[:1] if made is not None else ()
        if made is not None and any(self.partial(argument, made[0], None, single=single) for argument in given):
            return frozenset()
        params = self.flow.store.read(optimizer, "params", None)
        return self.whole(params, single=single, within=within | {optimizer})

    def partial(
        self,
        expr: f.Expr,
        frame: Frame,
        spot: Spot | None,
        seen: set[Write] | None = None,
        *,
        single: bool = True,
    ) -> bool:
        """Whether an expression picks some parameters, or those of one module at a time: values do not tell a part of
        what was made elsewhere from the whole."""
        # One for the whole search: what was looked at once, on whatever way, picks nothing.
        known = set() if seen is None else seen
        return any(self.picks(node, frame, spot, known, single) for node, _ in in_order(expr))

    def picks(self, node: f.Expr, frame: Frame, spot: Spot | None, seen: set[Write], single: bool) -> bool:
        if not isinstance(node, f.Subscript | f.Attribute | f.Name):
            return False
        values = self.flow.evaluate(node, frame)
        owners = NOTHING if isinstance(node, f.Name) else self.flow.evaluate(node.value, frame)
        foreign = any(self.foreign(owner) for owner in owners)
        if isinstance(node, f.Subscript):
            return foreign or any(isinstance(v, Parameters) for v in values)
        if isinstance(node, f.Attribute) and node.attr in catalog.PARAMETER_METHODS:
            return single and not self.single(owners, spot)
        if any(isinstance(v, Instance) for v in values):
            return foreign and not (isinstance(node, f.Attribute) and node.attr == "module")
        return foreign or any(self.partial_write(write, seen, single) for write in self.writes(node, frame, owners))

    def writes(self, node: f.Name | f.Attribute, frame: Frame, owners: Values) -> list[Write]:
        """The writes to a variable or field."""
        store = self.flow.store
        if isinstance(node, f.Name):
            return list(store.writes(self.flow.variables.home(frame, node.id), node.id))
        return [write for owner in owners for write in store.writes(self.flow.owner(owner), node.attr)]

    def foreign(self, owner: Value) -> bool:
        """Whether an object is a module that was made outside the project."""
        return isinstance(owner, Instance) and owner.cls is None and self.entities.is_module(owner)

    def single(self, owners: Values, spot: Spot | None) -> bool:
        """Whether an expression means one module."""
        found = frozenset(m for owner in owners for m in self.entities.unwrapped(owner))
        # A model, or the one that holds it: where it was put into another, that one is meant.
        modules = frozenset(m for m in found if not found & (self.entities.outermost(m) - {m}))
        return len(modules) < 2 and (spot is None or self.names.single(modules, spot) == modules)

    def partial_write(self, write: Write, seen: set[Write], single: bool) -> bool:
        """Whether a variable or field is given only some parameters."""
        if write in seen:
            return False
        seen.add(write)
        frame, span = write
        path = path_to(self.flow.scope(frame).body, span)
        statement = path[-1][0][path[-1][1]] if path else None
        return isinstance(statement, f.Assign) and self.partial(statement.value, frame, None, seen, single=single)

    def whole(self, values: Values, *, single: bool = True, within: frozenset[Value] = NOTHING) -> frozenset[Value]:
        """The modules whose parameters all are among values, as far as that is certain; `within` are the optimizers
        that are around them, one of which may seem to be around itself.

        Parameter groups and lists that are filtered or filled step by step may leave some out. Parameters that need
        no gradient do not matter to a clip.
        """
        found: set[Value] = set()
        for value in values:
            if isinstance(value, Parameters):
                found |= self.entities.unwrapped(value.of)
            elif isinstance(value, Container):
                inner = self.flow.elements(frozenset((value,)))
                if self.selective(value) or any(isinstance(v, Container) for v in inner):
                    return frozenset()
                found |= self.whole(inner, within=within)
            elif self.entities.is_optimizer(value) and value not in within:
                # It is around another one, and steps what that one does.
                found |= self.held(value, single=single, within=within)
        return frozenset(found)

    def selective(self, container: Container) -> bool:
        """Whether a container may have left some of its source out."""
        path, span = container.place
        if container.part == GENERATOR:
            return self.passes_over(path, span)
        text = self.flow.files[path].text(span)
        chooses = " if " in text or "filter" in text
        return (chooses and "requires_grad" not in text) or text in ("[]", "list()")

    def passes_over(self, path: str, span: f.Span) -> bool:
        """Whether a `yield` stands under a condition, or behind one that leaves."""
        scope = max((s for s in self.flow.files[path].scopes if inside(span, s.span)), key=lambda s: s.span[:2])
        way = path_to(scope.body, span)
        before = (statement for block, index in way for statement in block[: index + 1])
        return any(isinstance(statement, f.Branch | f.While | f.Try) for statement in before)
