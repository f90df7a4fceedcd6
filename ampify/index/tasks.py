"""What the solver of the flow works through: statements, each in the frame that runs it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ampify.index.values import Frame
from ampify.model import facts as f


@dataclass(eq=False, slots=True)
class Task:
    """A statement of a frame, apart from the statements of its blocks: what is evaluated again, and no more than that,
    when something it read has grown."""

    frame: Frame
    statement: f.Stmt


class Queue:
    """Tasks in the order in which they were asked for, each at most once at a time."""

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        self._known: set[Task] = set()

    def put(self, task: Task) -> None:
        """Asks for a task to be done (again)."""
        if task not in self._known:
            self._known.add(task)
            self._waiting.append(task)

    def take(self) -> Task | None:
        """The next task, or None when nothing is left to do."""
        if not self._waiting:
            return None
        task = self._waiting.popleft()
        self._known.discard(task)
        return task
