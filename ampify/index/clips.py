"""Gradient clips: whether the parameters they clip are just those that one optimizer steps."""

from __future__ import annotations

from ampify.index.entities import Entities
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.moments import Spot
from ampify.index.names import Names
from ampify.index.values import Container, Parameters, Value, Values
from ampify.model import facts as f
from ampify.model.project import ClipCall


class Clips:
    """Reads clips off their events."""

    def __init__(self, flow: Flow, entities: Entities, names: Names) -> None:
        self.flow = flow
        self.entities = entities
        self.names = names

    def clip(self, event: Event, optimizers: frozenset[Value]) -> ClipCall:
        """A clip, with the optimizer that holds just the parameters it clips, if one can be named."""
        assert isinstance(event.node, f.Call)
        facts = self.flow.files[event.frame.path]
        clipped = self.whole(frozenset(event.values))
        same = frozenset(o for o in optimizers if clipped and self.held(o) == clipped)
        named = self.names.cover(Spot.of(event), same, self.names.optimizers) if same else None
        text = named[0].text if named and len(named) == 1 and not named[0].optional else None
        return ClipCall(
            call=event.anchor,
            function=facts.anchor(event.node.func),
            function_text=facts.text(event.node.func.span),
            parameters=facts.anchor(event.node.args[0]),
            optimizer=text,
            right=event.detail == "master",
        )

    def held(self, optimizer: Value) -> frozenset[Value]:
        """The modules all of whose parameters an optimizer was given; empty if it may hold only some of them."""
        return self.whole(self.flow.store.read(optimizer, "params", None))

    def whole(self, values: Values) -> frozenset[Value]:
        """The modules whose parameters all are among values, as far as that is certain.

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
                found |= self.whole(inner)
        return frozenset(found)

    def selective(self, container: Container) -> bool:
        """Whether a container may have left some of its source out."""
        path, span = container.place
        text = self.flow.files[path].text(span)
        chooses = " if " in text or "filter" in text
        return (chooses and "requires_grad" not in text) or text in ("[]", "list()")
