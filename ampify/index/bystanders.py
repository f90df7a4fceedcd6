"""Optimizers that a new `amp.initialize` would meet as well, though it is written for another training loop: code that
both run, a constructor that they inherit say, would initialize them where their own loop knows nothing of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ampify.index.flow import Flow
from ampify.index.moments import Spot
from ampify.index.syntax import spelled
from ampify.index.values import NOTHING, Value, Values
from ampify.model.anchor import Anchor
from ampify.model.project import Initialize, Obstacle, TrainingLoop

DETAIL = (
    "what it would prepare here is also trained elsewhere, in a loop that is prepared in another place or not at all"
)
DETAIL_OF_OTHER = "what it trains is built by code that another loop uses, too, and the two would be prepared apart"


def bystanders(
    flow: Flow,
    loops: Sequence[TrainingLoop],
    optimizers: Mapping[str, frozenset[Value]],
    spots: Mapping[Anchor, Sequence[Spot]],
) -> Iterator[Obstacle]:
    """What forbids migrating a loop: a place of its own where it meets the optimizers of others. `optimizers` are those
    of each loop, `spots` the places where `amp.initialize` would go, as met in the runs of the program."""
    for loop in loops:
        for place in loop.initializes:
            others = [other for other in loops if other is not loop and not _prepared_at(other, place.anchor)]
            met = _met(flow, place, spots.get(place.anchor, ())) - optimizers[loop.id]
            theirs = [other for other in others if optimizers[other.id] & met and not place.present]
            if theirs:
                related = tuple((other.anchor, "trained here") for other in theirs[:3])
                yield Obstacle("no-place-to-initialize", place.anchor, DETAIL, related, loop.id)
            for other in theirs:
                if not other.migrated:
                    yield Obstacle(
                        "no-place-to-initialize",
                        other.anchor,
                        DETAIL_OF_OTHER,
                        ((place.anchor, "built here"),),
                        other.id,
                    )


def _prepared_at(loop: TrainingLoop, anchor: Anchor) -> bool:
    return any(place.anchor == anchor for place in loop.initializes)


def _met(flow: Flow, place: Initialize, spots: Iterable[Spot]) -> Values:
    """All that the names of the optimizers at a place may be, whoever runs the code there."""
    scopes = {(spot.frame.path, spot.frame.scope) for spot in spots}
    frames = [frame for scope in sorted(scopes) for frame in flow.frames_of.get(scope, ())]
    # Of any expression but a dotted name nothing is known here.
    names = [name for name in place.optimizers if all(part.isidentifier() for part in name.split("."))]
    return NOTHING.union(*(flow.evaluate(spelled(name), frame) for name in names for frame in frames))
