"""Optimizers that a new `amp.initialize` would meet as well, though it is written for another training loop: code that
both run, a constructor that they inherit say, would initialize them where their own loop knows nothing of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ampify.index.flow import Flow
from ampify.index.moments import Moments, Spot
from ampify.index.syntax import spelled
from ampify.index.values import NOTHING, Value, Values
from ampify.model.anchor import Anchor
from ampify.model.project import Initialize, Obstacle, TrainingLoop

DETAIL = (
    "what it would prepare here is also trained elsewhere, in a loop that is prepared in another place or not at all"
)
DETAIL_OF_OTHER = "what it trains is built by code that another loop uses, too, and the two would be prepared apart"


def bystanders(
    moments: Moments,
    loops: Sequence[TrainingLoop],
    optimizers: Mapping[str, frozenset[Value]],
    spots: Mapping[Anchor, Sequence[Spot]],
) -> Iterator[Obstacle]:
    """What forbids migrating a loop: a place of its own where it meets the optimizers of others. `optimizers` are those
    of each loop, `spots` the places where `amp.initialize` would go, as met in the runs of the program."""
    for loop in loops:
        for place in loop.initializes:
            others = [other for other in loops if other is not loop and not _prepared_at(other, place.anchor)]
            met = _met(moments, place, spots.get(place.anchor, ())) - optimizers[loop.id]
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


def _met(moments: Moments, place: Initialize, spots: Iterable[Spot]) -> Values:
    """All that the names of the optimizers at a place may be there, whoever runs the code."""
    # Of any expression but a dotted name nothing is known here.
    names = [name for name in place.optimizers if all(part.isidentifier() for part in name.split("."))]
    return NOTHING.union(*(_held(moments, name, spot) for spot in _everywhere(moments.flow, spots) for name in names))


def _everywhere(flow: Flow, spots: Iterable[Spot]) -> Iterator[Spot]:
    """Spots as they are in each run of their function."""
    for spot in {(s.frame.path, s.frame.scope, s.at): s for s in spots}.values():
        for frame in flow.frames_of.get((spot.frame.path, spot.frame.scope), ()):
            yield spot if frame is spot.frame else replace(spot, frame=frame, stack=())


def _held(moments: Moments, name: str, spot: Spot) -> Values:
    flow = moments.flow
    if "." in name:
        return flow.evaluate(spelled(name), spot.frame)
    return moments.values(flow.variables.home(spot.frame, name), name, spot)
