"""Worker processes of our own: one that dies or hangs costs the item it was at, and no other.

`ProcessPoolExecutor` and joblib's loky give up every item when one worker dies, and neither has a limit of time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any, Final, Generic, TypeVar

from ampify.stack import with_much_room

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Seconds for one item; the largest files in use take a few.
TIME_LIMIT = 300.0
# A worker may have been killed for what others did to the machine: what it was at is begun once more.
MOST_LOSSES: Final = 2
# Items that a worker has at hand, so that it need not wait for the next.
_AT_HAND: Final = 2
# Seconds that a process may take to die.
_DYING: Final = 5.0
# Seconds between looks at the clock.
_TICK: Final = 0.5


@dataclass(frozen=True, slots=True)
class Lost:
    """What stands in place of a result: why the worker gave none, in words."""

    reason: str


def spread(
    work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int, limit: float | None = None
) -> Iterator[tuple[int, _Result | Lost]]:
    """The number of each item with what `work` made of it, as they come; `limit` is in seconds an item.

    `work` must not raise, and can be pickled, as its results. No worker is left behind, however the iteration ends.
    """
    crew = _Crew(work, items, deque(range(len(items))), TIME_LIMIT if limit is None else limit)
    try:
        crew.fill(min(workers, len(items)))
        while crew.workers:
            yield from crew.answers()
            crew.fill(min(workers, len(items)))
    finally:
        for worker in crew.workers:
            worker.stop()


@dataclass(slots=True)
class _Worker:
    """A process, the pipe to it, the numbers of the items it was given, and when it last began one."""

    process: Any
    pipe: Connection
    given: deque[int] = field(default_factory=deque)
    since: float = field(default_factory=time.monotonic)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@dataclass(slots=True)
class _Crew(Generic[_Item, _Result]):
    """The workers there are, and the numbers of the items that none of them has."""

    work: Callable[[_Item], _Result]
    items: Sequence[_Item]
    waiting: deque[int]
    limit: float
    workers: list[_Worker] = field(default_factory=list)
    losses: dict[int, int] = field(default_factory=dict)

    def fill(self, wanted: int) -> None:
        """Starts what workers are missing, hands out items, and lets go of workers for whom there are none."""
        while self.waiting and len(self.workers) < wanted:
            self.workers.append(self._started())
        for worker in list(self.workers):
            self._feed(worker)
            if not worker.given:
                self.workers.remove(worker)
                worker.stop()

    def answers(self) -> Iterator[tuple[int, _Result | Lost]]:
        """What has come in meanwhile, and what is lost."""
        ready = wait([worker.pipe for worker in self.workers], _TICK)
        for worker in list(self.workers):
            if worker.pipe in ready:
                yield from self._heard(worker)
            elif time.monotonic() - worker.since > self.limit:
                self._dismiss(worker)
                yield worker.given[0], Lost(f"took longer than {self.limit:.0f} seconds")

    def _heard(self, worker: _Worker) -> Iterator[tuple[int, _Result | Lost]]:
        try:
            number, result = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(_DYING)  # what killed it shall be told, not that it was then ended
            self._dismiss(worker)
            number = worker.given[0]
            self.losses[number] = self.losses.get(number, 0) + 1
            if self.losses[number] < MOST_LOSSES:
                self.waiting.appendleft(number)
            else:
                yield number, Lost(f"killed its process{_manner(worker.process.exitcode)}")
            return
        worker.given.popleft()
        worker.since = time.monotonic()
        self._feed(worker)
        yield number, result

    def _feed(self, worker: _Worker) -> None:
        while self.waiting and len(worker.given) < _AT_HAND:
            if not worker.given:
                worker.since = time.monotonic()
            worker.given.append(self.waiting.popleft())
            try:
                worker.pipe.send(worker.given[-1])
            except OSError:  # it has died: the pipe's end will tell
                return

    def _dismiss(self, worker: _Worker) -> None:
        """Ends a worker; what it had not begun goes back."""
        self.workers.remove(worker)
        worker.stop()
        self.waiting.extendleft(reversed(list(worker.given)[1:]))

    def _started(self) -> _Worker:
        context = _context()
        ours, theirs = context.Pipe()
        # Ends of other pipes would keep those open, and their workers alive, after this process has died.
        inherited = [worker.pipe for worker in self.workers] + [ours] if context.get_start_method() == "fork" else []
        process = context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(self.work, self.items, theirs, inherited), daemon=True
        )
        with _interrupts_held():
            process.start()
        theirs.close()
        return _Worker(process, ours)


def _serve(work: Callable[[Any], Any], items: Sequence[Any], pipe: Connection, inherited: Sequence[Connection]) -> None:
    """The life of a worker: it reads numbers of items and writes results, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    for other in inherited:
        other.close()

    def answer() -> None:
        while True:
            number = pipe.recv()
            pipe.send((number, work(items[number])))

    with suppress(EOFError, OSError):
        with_much_room(answer)


def _end_with_parent() -> None:
    """Has this process end when its parent does, whatever it is at: killed, the parent cannot end it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    threading.Thread(target=_outlive_by_nothing, args=(parent.sentinel,), daemon=True).start()
    if sys.platform == "linux":
        import fcntl

        # A thread waits for the interpreter, which a regular expression, say, may hold for hours; a signal does not.
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)


def _outlive_by_nothing(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _context() -> BaseContext:
    """Forked workers have all modules and items at once; elsewhere they are sent."""
    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C is for this process alone to hear, also while another starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _manner(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f" (exit status {exitcode})" if exitcode else ""
    try:
        return f" ({signal.Signals(-exitcode).name})"
    except ValueError:
        return f" (signal {-exitcode})"
