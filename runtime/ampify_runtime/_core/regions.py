"""Owns the open regions of a thread: what hooks entered and have to leave, also when nobody comes to leave it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any


class Exits:
    """What to undo when a region ends: the last first, and all of it, whatever raises. A light ExitStack."""

    __slots__ = ("_undo",)

    def __init__(self) -> None:
        self._undo: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def callback(self, function: Callable[..., object], *args: Any) -> None:
        """Call `function` with `args` at the end."""
        self._undo.append((function, args))

    def enter_context(self, context: AbstractContextManager[Any]) -> None:
        """Enter `context` now, and leave it at the end, of which it is told no exception."""
        context.__enter__()
        self._undo.append((context.__exit__, (None, None, None)))

    def close(self) -> None:
        """Undo it all; the last exception is raised, with those before it as its context."""
        try:
            while self._undo:
                function, args = self._undo.pop()
                function(*args)
        finally:
            if self._undo:
                self.close()


class _Region(Exits):
    """What was entered on behalf of `owner` while `frame` runs, and how to leave it."""

    __slots__ = ("frame", "key", "owner")

    def __init__(self, owner: object, key: object, frame: FrameType) -> None:
        self._undo = []
        self.owner = owner
        self.key = key
        self.frame = frame


class _Stack(threading.local):
    """The open regions of a thread, the innermost last."""

    def __init__(self) -> None:
        self.regions: list[_Region] = []


_stack = _Stack()


def open_region(owner: object, key: object, frame: FrameType) -> Exits | None:
    """Open a region that lasts as long as `frame` runs; what to undo when it ends goes into the answer.

    None inside of a region with the same `key`: that one has done what there is to do. Close it all the same.
    """
    regions = _stack.regions
    region = _Region(owner, key, frame)
    # Mostly there is no other: then nothing is dead, and nothing nested.
    if regions:
        leave_dead_regions()
    nested = bool(regions) and is_open(key)
    regions.append(region)
    return None if nested else region


def close_region(owner: object) -> None:
    """Leave the innermost region, if it is `owner`'s: torch calls hooks of exit also where entry failed."""
    regions = _stack.regions
    if regions and regions[-1].owner is owner:
        regions.pop().close()


def is_open(key: object) -> bool:
    """Whether this thread is in a region with this `key`."""
    return any(region.key is key for region in _stack.regions)


def leave_dead_regions() -> None:
    """Leave regions whose frame has ended without its hook of exit.

    torch calls none when an optimizer's step raises, nor when Ctrl-C ends a forward. Left open, such a region would
    keep autocast's weight cache alive, and what follows would compute with stale weights.
    """
    while _stack.regions and not _runs(_stack.regions[-1].frame):
        _stack.regions.pop().close()


def forget_regions() -> None:
    """Drop all regions of this thread without leaving them."""
    _stack.regions.clear()


def _runs(wanted: FrameType) -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame is wanted:
            return True
        frame = frame.f_back
    return False
