"""Room on the stack for what recurses: little, to find out who needs more, and much, in a thread of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

_Result = TypeVar("_Result")

# Bytes; measured: LibCST reads 3,000 nested calls in less. Memory is used as the stack grows, not before.
_STACK: Final = 512 * 1024 * 1024
# Frames; LibCST needs about ten a level.
_RECURSION: Final = 100_000
# Frames: the stages after reading need up to three times as many, and Python has 1,000 by default.
_MODEST: Final = 300
_limits: Final = threading.Lock()


class _DeepThread(threading.Thread):
    """A thread with much room."""


def with_much_room(work: Callable[[], _Result]) -> _Result:
    """What `work` returns, called where deep recursion does not exhaust the stack."""
    if isinstance(threading.current_thread(), _DeepThread):
        return work()
    results: list[_Result] = []
    problems: list[BaseException] = []

    def attempt() -> None:
        try:
            results.append(work())
        except BaseException as problem:  # noqa: BLE001 (raised again where it belongs)
            problems.append(problem)

    _run_in_deep_thread(attempt)
    if problems:
        raise problems[0]
    return results[0]


@contextmanager
def with_modest_room() -> Iterator[None]:
    """Has recursion end sooner than it must: what gets by leaves enough for whoever walks the same tree later."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(min(limit, _frames() + _MODEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _frames() -> int:
    count, frame = 0, sys._getframe()
    while frame.f_back is not None:
        count, frame = count + 1, frame.f_back
    return count


def _run_in_deep_thread(work: Callable[[], None]) -> None:
    # Both limits belong to the whole process: nobody else may change them meanwhile.
    with _limits:
        recursion, stack = sys.getrecursionlimit(), threading.stack_size(_STACK)
        sys.setrecursionlimit(max(recursion, _RECURSION))
        try:
            thread = _DeepThread(target=work, daemon=True)
            thread.start()
            thread.join()
        finally:
            threading.stack_size(stack)
            sys.setrecursionlimit(recursion)
