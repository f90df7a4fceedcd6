"""The way from an expression back to where the object is made that it stands for, hop by hop.

It is searched for after the flow is solved, and only when asked: the flow keeps which objects an expression may be, not
how they came there. The nearest steps are tried first, so that the way is the one of the fewest steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ampify.index.flow import Flow
from ampify.index.from_expressions import FromExpressions, is_known
from ampify.index.from_holders import FromHolders
from ampify.index.lost_trails import LostTrails
from ampify.index.positions import ARGUMENT, ASSIGNED, ELEMENT, RETURNED, At, Held, Looking, Position, Rest, Step
from ampify.index.values import Container, Derived, Frame, Instance, Opaque, Parameters, State, Value, Values
from ampify.index.written import Written
from ampify.model import facts as f
from ampify.model.evidence import Hop

# Words that say less than whatever else is said of their place.
WEAK = (ASSIGNED, ARGUMENT, RETURNED)
# Positions looked at for one object: beyond, its way is told as far as its end only.
MOST_POSITIONS = 1_000
# Positions looked at for all objects of a program: some seconds.
MOST_WORK = 200_000


class Ways:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.looking = Looking(flow)
        written = Written(flow)
        self.nodes_at = written.nodes_at
        self.expressions = FromExpressions(self.looking, written)
        self.holders = FromHolders(self.looking, written)
        self.lost = LostTrails(self.looking, written)
        self.work = 0

    def values(self, expr: f.Expr, frame: Frame) -> Values:
        """What an expression may be in a frame."""
        return self.looking.values(expr, frame)

    def way(self, expr: f.Expr, frame: Frame, value: Value, rest: Rest = ()) -> tuple[Hop, ...]:
        """The hops from an expression to where `value`, or what is in it by `rest`, is made; or to where the trail is
        lost."""
        start = At(expr, frame, value, rest)
        for leaping in (False, True) if rest else (False,):
            found = self._search(start, leaping)
            if found is not None:
                return tuple(tidy(found))
        return self._end(rest[-1][1] if rest else value, start)

    def unknown(self, expr: f.Expr, frame: Frame) -> tuple[Hop, ...]:
        """The hops from an expression that nothing is known of to where its trail is lost."""
        return tuple(tidy(self.lost.trail(expr, frame)))

    def _search(self, start: At, leaping: bool) -> tuple[Hop, ...] | None:
        waiting: deque[tuple[Position, tuple[Hop, ...]]] = deque([(start, ())])
        seen = {start.key}
        while waiting and len(seen) <= MOST_POSITIONS and self.work <= MOST_WORK:
            position, hops = waiting.popleft()
            self.work += 1
            for passed, following in self._steps(position, leaping):
                if following is None:
                    return (*hops, *passed)
                if following.key not in seen:
                    seen.add(following.key)
                    waiting.append((following, (*hops, *passed)))
        return None

    def _steps(self, position: Position, leaping: bool) -> Iterator[Step]:
        if isinstance(position, Held):
            yield from self.holders.steps(position)
            return
        yield from self.expressions.steps(position)
        if leaping and position.rest:
            # Where the container came from is not found: what put the element there may be.
            field, inner = position.rest[0]
            yield (), Held(position.value, field, inner, position.rest[1:])

    def _end(self, value: Value, start: At) -> tuple[Hop, ...]:
        """Where an object is made, as the flow knows it, if the steps to it are not found."""
        while isinstance(value, Derived | Parameters | State):
            value = value.of
        created = self.flow.created.get(value) if isinstance(value, Instance) else None
        if created is not None and isinstance(value, Instance):
            frame, call = created
            known = value.cls is not None or is_known(value.dotted)
            text = self.looking.call(call, frame)
            how = f"{text}, by steps that are not shown" if known else f"what {text} returns is not known"
            return (Hop(value.place[0], value.place[1][0], how, lost=not known),)
        if isinstance(value, Instance | Container):
            cls = value.cls if isinstance(value, Instance) else None
            what = f"an object of {self.flow.classes.scope(cls).name}" if cls is not None else "it"
            how = f"nothing in the files given makes {what}"
            return (Hop(value.place[0], value.place[1][0], how, lost=True),)
        line = start.expr.span[0]
        if isinstance(value, Opaque):
            element = value.name.startswith("[")
            how = "the element is not known" if element else f"nothing in the files given sets {value.name}"
            return (Hop(start.frame.path, line, how, lost=True),)
        return (Hop(start.frame.path, line, "its origin is not followed", lost=True),)


def tidy(hops: tuple[Hop, ...]) -> Iterator[Hop]:
    """Hops without those that say less than the next one at the same place."""
    for hop, following in zip(hops, (*hops[1:], None), strict=True):
        same = following is not None and (hop.path, hop.line) == (following.path, following.line)
        weak = hop.how in WEAK or hop.how.startswith(ELEMENT) or (following is not None and hop.how == following.how)
        if not same or not weak:
            yield hop
