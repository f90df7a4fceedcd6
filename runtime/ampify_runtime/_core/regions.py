"""Owns the open regions of a thread: what hooks entered and have to leave, also when nobody comes to leave it."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType


@dataclass(frozen=True, slots=True)
class _Region:
    """What was entered on behalf of `owner` while `frame` runs, and how to leave it."""

    owner: object
    key: object
    frame: FrameType
    exits: ExitStack


class _Stack(threading.local):
    """The open regions of a thread, the innermost last."""

    def __init__(self) -> None:
        self.regions: list[_Region] = []


_stack = _Stack()


def open_region(owner: object, key: object, frame: FrameType) -> ExitStack | None:
    """Open a region that lasts as long as `frame` runs; what to undo when it ends goes into the answer.

    None inside of a region with the same `key`: that one has done what there is to do. Close it all the same.
    """
    leave_dead_regions()
    nested = any(region.key is key for region in _stack.regions)
    region = _Region(owner, key, frame, ExitStack())
    _stack.regions.append(region)
    return None if nested else region.exits


def close_region(owner: object) -> None:
    """Leave the innermost region, if it is `owner`'s: torch calls hooks of exit also where entry failed."""
    if _stack.regions and _stack.regions[-1].owner is owner:
        _stack.regions.pop().exits.close()


def is_open(key: object) -> bool:
    """Whether this thread is in a region with this `key`."""
    return any(region.key is key for region in _stack.regions)


def leave_dead_regions() -> None:
    """Leave regions whose frame has ended without its hook of exit.

    torch calls none when an optimizer's step raises, nor when Ctrl-C ends a forward. Left open, such a region would
    keep autocast's weight cache alive, and what follows would compute with stale weights.
    """
    while _stack.regions and not _runs(_stack.regions[-1].frame):
        _stack.regions.pop().exits.close()


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
