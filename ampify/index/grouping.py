"""Which backward passes and optimizers belong to one training loop."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ampify.index.events import Event
from ampify.index.values import Value
from ampify.model.anchor import Anchor


class Groups:
    """Disjoint sets that merge."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}

    def find(self, item: Hashable) -> Hashable:
        """The item that stands for the set of `item`."""
        self._parents.setdefault(item, item)
        while (parent := self._parents[item]) != item:
            self._parents[item] = self._parents[parent]
            item = parent
        return item

    def merge(self, items: Iterable[Hashable]) -> None:
        """Makes one set of the sets of all items."""
        roots = [self.find(item) for item in items]
        for root in roots[1:]:
            self._parents[self.find(root)] = self.find(roots[0])


def group(events: Iterable[Event]) -> list[tuple[tuple[Event, ...], frozenset[Value]]]:
    """Backward events that feed a step, with the optimizers they feed, one entry a training loop.

    Two belong together if they feed one optimizer, stand at one place in the code, or run in one loop statement.
    """
    groups = Groups()
    feeding = [e for e in events if e.kind == "backward" and e.feeds]
    for event in feeding:
        groups.merge([event, event.anchor, *event.feeds])
        for step in event.feeds.values():
            groups.merge([event, step.anchor])
        shared: list[Hashable] = [(event.root, loop) for loop in event.loops]
        if not event.loops:
            shared = [(event.root, event.stack[0][0] if event.stack else event.frame)]
        groups.merge([event, *shared])
    found: dict[Hashable, list[Event]] = {}
    for event in feeding:
        found.setdefault(groups.find(event), []).append(event)
    result = []
    for members in found.values():
        optimizers = frozenset(o for e in members for o in e.feeds)
        result.append((tuple(members), optimizers))
    return sorted(result, key=lambda pair: min(_order(e.anchor) for e in pair[0]))


def _order(anchor: Anchor) -> tuple[str, int, int]:
    return (anchor.path, anchor.line, anchor.column)
