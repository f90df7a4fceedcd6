"""The growing table of what every variable, field and return may hold, and which task read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from ampify.index.tasks import Queue, Task
from ampify.index.values import NOTHING, Frame, Interner, Opaque, Value, Values
from ampify.model.facts import Span

Key: TypeAlias = tuple[Value, str]
Write: TypeAlias = tuple[Frame, Span]


# More values than a program means by one name: beyond, the analysis has lost track of it.
MOST_VALUES = 40


class Store:
    """Sets only grow; when one does, the tasks that read it are queued to be done again."""

    def __init__(self, make: Interner, queue: Queue) -> None:
        self._make = make
        self._queue = queue
        # Grows whenever a set does.
        self.changes = 0
        self._lost: set[Key] = set()
        self._values: dict[Key, Values] = {}
        self._readers: dict[Key, dict[Task, None]] = {}
        self._fields: dict[Value, dict[str, None]] = {}
        self._writes: dict[Key, dict[Write, Values]] = {}

    def read(self, owner: Value, name: str, reader: Task | None) -> Values:
        """What `name` of `owner` may hold; `reader` is told when that grows."""
        key = (owner, name)
        if reader is not None:
            self._readers.setdefault(key, {})[reader] = None
        return self._values.get(key, NOTHING)

    def add(self, owner: Value, name: str, values: Values, by: Write | None = None) -> None:
        """Adds to what `name` of `owner` may hold; `by` is the write that does it, where its moment matters."""
        key = (owner, name)
        if by is not None and values:
            writes = self._writes.setdefault(key, {})
            writes[by] = writes.get(by, NOTHING) | values
        known = self._values.get(key, NOTHING)
        if values <= known or key in self._lost:
            return
        grown = known | values
        if len(grown) > MOST_VALUES:
            # From here on nothing is known of it, which is what an opaque value says.
            self._lost.add(key)
            grown = frozenset((self._make(Opaque, owner, name),))
        self._values[key] = grown
        self.changes += 1
        self._fields.setdefault(owner, {})[name] = None
        if name.startswith("["):
            self._notify((owner, "[]"))
        self._notify(key)

    def elements(self, owner: Value, reader: Task | None) -> Values:
        """All that the elements of a container may hold."""
        if reader is not None:
            self._readers.setdefault((owner, "[]"), {})[reader] = None
        found: set[Value] = set()
        for name in self._fields.get(owner, ()):
            if name.startswith("["):
                found |= self._values[(owner, name)]
        return frozenset(found)

    def holders(self, values: Values) -> Iterator[Key]:
        """All names that may hold some of these values."""
        return (key for key, held in self._values.items() if held & values)

    def writes(self, owner: Value, name: str) -> dict[Write, Values]:
        """The writes to `name` of `owner` that said so, and what each may put there; none once track is lost of it."""
        if (owner, name) in self._lost:
            return {}
        return self._writes.get((owner, name), {})

    def fields(self, owner: Value, reader: Task | None = None) -> tuple[str, ...]:
        """Names of what `owner` holds, in the order they were first set; `reader` is told of further elements."""
        if reader is not None:
            self._readers.setdefault((owner, "[]"), {})[reader] = None
        return tuple(self._fields.get(owner, ()))

    def _notify(self, key: Key) -> None:
        for task in self._readers.get(key, ()):
            self._queue.put(task)
