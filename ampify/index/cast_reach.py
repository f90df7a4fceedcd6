"""What runs while the casts of a loop's `amp.initialize` are on: these hold for all that a thread runs from then on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ampify.index.autocasts import withs_around
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.syntax import last_name
from ampify.model.anchor import Anchor

# The event of each run, by its root, after which a loop is initialized.
Ready: TypeAlias = Mapping[int, Event]


def ready(events: Iterable[Event]) -> Ready:
    """When what a loop trains first is built, in each run of its events; what is built while it trains, or to train
    again, comes too late to matter."""
    found: dict[int, Event] = {}
    trains: set[int] = set()
    for event in sorted(events, key=lambda e: e.number):
        if event.kind == "build" and event.root not in trains:
            found[event.root] = event
        elif event.kind == "backward":
            trains.add(event.root)
            # What is not seen to be built may be there from the start.
            found.setdefault(event.root, event)
    return found


def reached(since: Ready, events: Iterable[Event], flow: Flow) -> tuple[Anchor, ...]:
    """The backwards among some events that may run after that, and not under `with amp.disable_casts():`."""
    backwards = (e for e in events if e.kind == "backward" and _comes_after(e, since) and not _kept_from(e, flow))
    return tuple(dict.fromkeys(e.anchor for e in backwards))


def _kept_from(event: Event, flow: Flow) -> bool:
    contexts = (context for _, statement in withs_around(flow, event) for context, _ in statement.items)
    return any(last_name(context) == "disable_casts" for context in contexts)


def _comes_after(event: Event, since: Ready) -> bool:
    built = since.get(event.root)
    return built is not None and (built.kind == "backward" or event.number > built.number)
