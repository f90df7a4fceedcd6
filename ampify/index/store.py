"""The growing table of what every variable, field and return may hold, and which task read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ampify.index.tasks import Queue, Task
from ampify.index.values import NOTHING, Frame, Interner, Opaque, Value, Values
from ampify.model.facts import Span

Key: TypeAlias = tuple[Value, str]
Write: TypeAlias = tuple[Frame, Span]


# More values than a program means by one name: beyond, the analysis has lost track of it.
MOST_VALUES = 40


@dataclass(eq=False, slots=True)
class _Cell:
    """What one name of one owner may hold, and who is to be told when that grows."""

    values: Values = NOTHING
    readers: dict[Task, None] = field(default_factory=dict)
    # Those that read what some of its writes put there: they are told of what another one had put there before, too.
    partly: dict[Task, None] = field(default_factory=dict)


class Store:
    """Sets only grow; when one does, the tasks that read it are queued to be done again."""

    def __init__(self, make: Interner, queue: Queue) -> None:
        self._make = make
        self._queue = queue
        # Grows whenever a set does.
        self.changes = 0
        self._lost: set[Key] = set()
        self._cells: dict[Value, dict[str, _Cell]] = {}
        # Cells that hold something, in the order in which they came to.
        self._filled: dict[Key, _Cell] = {}
        self._fields: dict[Value, dict[str, None]] = {}
        self._writes: dict[Key, dict[Write, Values]] = {}

    def read(self, owner: Value, name: str, reader: Task | None) -> Values:
        """What `name` of `owner` may hold; `reader` is told when that grows."""
        cells = self._cells.get(owner)
        cell = cells.get(name) if cells is not None else None
        if cell is None:
            if reader is None:
                return NOTHING
            cell = self._cell(owner, name)
        if reader is not None:
            cell.readers[reader] = None
        return cell.values

    def _cell(self, owner: Value, name: str) -> _Cell:
        cells = self._cells.get(owner)
        if cells is None:
            cells = self._cells[owner] = {}
        cell = cells.get(name)
        if cell is None:
            cell = cells[name] = _Cell()
        return cell

    def add(self, owner: Value, name: str, values: Values, by: Write | None = None) -> None:
        """Adds to what `name` of `owner` may hold; `by` is the write that does it, where its moment matters."""
        cell = self._cell(owner, name)
        if by is not None and values:
            self._note(owner, name, values, by, cell)
        if values <= cell.values or (self._lost and (owner, name) in self._lost):
            return
        key = (owner, name)
        grown = cell.values | values
        if len(grown) > MOST_VALUES:
            # From here on nothing is known of it, which is what an opaque value says.
            self._lost.add(key)
            grown = frozenset((self._make(Opaque, owner, name),))
        if not cell.values:
            self._filled[key] = cell
        cell.values = grown
        self.changes += 1
        self._fields.setdefault(owner, {})[name] = None
        if name.startswith("["):
            self._notify(self._cells[owner].get("[]"))
        self._notify(cell)

    def _note(self, owner: Value, name: str, values: Values, by: Write, cell: _Cell) -> None:
        writes = self._writes.setdefault((owner, name), {})
        before = writes.get(by, NOTHING)
        if not values <= before:
            writes[by] = before | values
            for task in cell.partly:
                self._queue.put(task)

    def read_from(self, frame: Frame, name: str, spans: frozenset[Span], reader: Task | None) -> Values:
        """What a local variable may hold where, of the writes of its own frame, those at `spans` alone may have been
        the last."""
        whole = self.read(frame, name, reader)
        if (frame, name) in self._lost:
            return whole
        if reader is not None:
            self._cell(frame, name).partly[reader] = None
        writes = self._writes.get((frame, name), {})
        return NOTHING.union(*(v for (by, span), v in writes.items() if by is not frame or span in spans))

    def elements(self, owner: Value, reader: Task | None) -> Values:
        """All that the elements of a container may hold."""
        if reader is not None:
            self._cell(owner, "[]").readers[reader] = None
        fields = self._fields.get(owner)
        if fields is None:
            return NOTHING
        cells = self._cells[owner]
        found: set[Value] = set()
        for name in fields:
            if name.startswith("["):
                found |= cells[name].values
        return frozenset(found)

    def holders(self, values: Values) -> Iterator[Key]:
        """All names that may hold some of these values."""
        return (key for key, cell in self._filled.items() if cell.values & values)

    def writes(self, owner: Value, name: str) -> dict[Write, Values]:
        """The writes to `name` of `owner` that said so, and what each may put there; none once track is lost of it."""
        if (owner, name) in self._lost:
            return {}
        return self._writes.get((owner, name), {})

    def fields(self, owner: Value, reader: Task | None = None) -> tuple[str, ...]:
        """Names of what `owner` holds, in the order they were first set; `reader` is told of further elements."""
        if reader is not None:
            self._cell(owner, "[]").readers[reader] = None
        return tuple(self._fields.get(owner, ()))

    def _notify(self, cell: _Cell | None) -> None:
        for task in cell.readers if cell is not None else ():
            self._queue.put(task)
