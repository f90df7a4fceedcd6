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
class Cell:
    """What one name of one owner may hold, and who is to be told when that grows."""

    values: Values = NOTHING
    readers: dict[Task, None] = field(default_factory=dict)
    # Those that read what some of its writes put there: they are told of what another one had put there before, too.
    partly: dict[Task, None] = field(default_factory=dict)
    writes: dict[Write, Values] = field(default_factory=dict)
    # Whether it could hold so much that nothing is known of it.
    lost: bool = False


class Store:
    """Sets only grow; when one does, the tasks that read it are queued to be done again."""

    def __init__(self, make: Interner, queue: Queue) -> None:
        self._make = make
        self._queue = queue
        # Grows whenever a set does.
        self.changes = 0
        self._cells: dict[Value, dict[str, Cell]] = {}
        # Cells that hold something, in the order in which they came to.
        self._filled: dict[Key, Cell] = {}
        self._fields: dict[Value, dict[str, None]] = {}

    def read(self, owner: Value, name: str, reader: Task | None) -> Values:
        """What `name` of `owner` may hold; `reader` is told when that grows."""
        cells = self._cells.get(owner)
        cell = cells.get(name) if cells is not None else None
        if cell is None:
            if reader is None:
                return NOTHING
            cell = self.cell(owner, name)
        if reader is not None:
            cell.readers[reader] = None
        return cell.values

    def cell(self, owner: Value, name: str) -> Cell:
        """What keeps what `name` of `owner` may hold: the same object for good."""
        cells = self._cells.get(owner)
        if cells is None:
            cells = self._cells[owner] = {}
        cell = cells.get(name)
        if cell is None:
            cell = cells[name] = Cell()
        return cell

    def add(self, owner: Value, name: str, values: Values, by: Write | None = None) -> None:
        """Adds to what `name` of `owner` may hold; `by` is the write that does it, where its moment matters."""
        cell = self.cell(owner, name)
        if by is not None and values:
            self._note(cell, values, by)
        if cell.lost or values <= cell.values:
            return
        grown = cell.values | values
        if len(grown) > MOST_VALUES:
            # From here on nothing is known of it, which is what an opaque value says.
            cell.lost = True
            grown = frozenset((self._make(Opaque, owner, name),))
        if not cell.values:
            self._filled[owner, name] = cell
        cell.values = grown
        self.changes += 1
        self._fields.setdefault(owner, {})[name] = None
        if name.startswith("["):
            self._notify(self._cells[owner].get("[]"))
        self._notify(cell)

    def _note(self, cell: Cell, values: Values, by: Write) -> None:
        before = cell.writes.get(by, NOTHING)
        if not values <= before:
            cell.writes[by] = before | values
            for task in cell.partly:
                self._queue.put(task)

    def read_from(self, frame: Frame, name: str, spans: frozenset[Span], reader: Task | None) -> Values:
        """What a local variable may hold where, of the writes of its own frame, those at `spans` alone may have been
        the last."""
        cell = self.cell(frame, name)
        if reader is not None:
            cell.readers[reader] = None
        if cell.lost:
            return cell.values
        if reader is not None:
            cell.partly[reader] = None
        return NOTHING.union(*[v for (by, span), v in cell.writes.items() if by is not frame or span in spans])

    def elements(self, owner: Value, reader: Task | None) -> Values:
        """All that the elements of a container may hold."""
        if reader is not None:
            self.cell(owner, "[]").readers[reader] = None
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
        cell = self._cells.get(owner, {}).get(name)
        return cell.writes if cell is not None and not cell.lost else {}

    def fields(self, owner: Value, reader: Task | None = None) -> tuple[str, ...]:
        """Names of what `owner` holds, in the order they were first set; `reader` is told of further elements."""
        if reader is not None:
            self.cell(owner, "[]").readers[reader] = None
        return tuple(self._fields.get(owner, ()))

    def _notify(self, cell: Cell | None) -> None:
        for task in cell.readers if cell is not None else ():
            self._queue.put(task)
