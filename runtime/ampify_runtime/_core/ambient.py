"""Owns the casts of code outside the models: autocast for the whole thread, with its weight cache off."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch

from .regions import forget_regions


class _Here(threading.local):
    """What this thread casts to outside of the models, by device type, and how often that is put off."""

    # No slots: threads would share them.
    def __init__(self) -> None:
        self.dtypes: dict[str, torch.dtype] = {}
        self.pauses = 0
        self.bans = 0


@dataclass(slots=True)
class _Process:
    watches_forks: bool = False


_here = _Here()
_process = _Process()


def establish(device_type: str, dtype: torch.dtype) -> None:
    """From now on, cast in this thread, also outside of the models.

    Without the weight cache: nothing would ever end its life, so that weights changed by a step, an EMA swap or a
    checkpoint would go unseen.
    """
    _watch_forks()
    _here.dtypes[device_type] = dtype
    if not _here.pauses:
        _set(device_type, True, dtype, cache=False)


def is_established(device_type: str) -> bool:
    """Whether this thread casts on `device_type` outside of the models."""
    return device_type in _here.dtypes


def withdraw() -> None:
    """Stop casting in this thread outside of the models."""
    for device_type in _here.dtypes:
        torch.set_autocast_enabled(device_type, False)
    if _here.dtypes:
        torch.set_autocast_cache_enabled(True)
    _here.dtypes.clear()
    _here.pauses = 0
    _here.bans = 0


def casts_anywhere() -> bool:
    """Whether this thread casts at all, be it put off or not."""
    return bool(_here.dtypes)


def is_banned(device_type: str) -> bool:
    """Whether the user keeps this thread from casting: by `amp.disable_casts`, or by a disabled autocast region."""
    if _here.bans:
        return True
    return is_established(device_type) and not _here.pauses and not torch.is_autocast_enabled(device_type)


def paused() -> _Off:
    """No casts in here, but for the models' own forwards: for backward passes and optimizer steps."""
    return _Off("pauses")


def banned() -> AbstractContextManager[None]:
    """No casts in here at all."""
    return _Off("bans")


@contextmanager
def resumed() -> Iterator[None]:
    """Casts as usual in here, though they are paused outside: for closures that a step calls."""
    pauses, _here.pauses = _here.pauses, 0
    before = _switch_on()
    try:
        yield
    finally:
        _switch_back(before)
        _here.pauses = pauses


Casts = tuple[str, bool, torch.dtype, bool]


def enter_casts(device_type: str, enabled: bool, dtype: torch.dtype) -> Casts:
    """What `torch.autocast` does on entry, with its weight cache on; what to give to `leave_casts`.

    Its object costs as much again, in checks that need no second look.
    """
    before = (
        device_type,
        torch.is_autocast_enabled(device_type),
        torch.get_autocast_dtype(device_type),
        torch.is_autocast_cache_enabled(),
    )
    torch.autocast_increment_nesting()
    _set(device_type, enabled, dtype, cache=True)
    return before


def leave_casts(before: Casts) -> None:
    """What `torch.autocast` does on exit."""
    if torch.autocast_decrement_nesting() == 0:
        torch.clear_autocast_cache()
    _set(*before)


class _Off:
    """A block in which this thread does not cast, counted under a name of `_Here`; a generator would be slower.

    Only whether it casts is switched: without casts, their type and cache do not matter.
    """

    __slots__ = ("before", "count")

    def __init__(self, count: str) -> None:
        self.count = count

    def __enter__(self) -> None:
        here = vars(_here)
        here[self.count] += 1
        self.before = [(device_type, torch.is_autocast_enabled(device_type)) for device_type in here["dtypes"]]
        for device_type, _ in self.before:
            torch.set_autocast_enabled(device_type, False)

    def __exit__(self, *_: object) -> None:
        for device_type, enabled in self.before:
            torch.set_autocast_enabled(device_type, enabled)
        here = vars(_here)
        here[self.count] = max(0, here[self.count] - 1)


_Before = tuple[bool, list[tuple[str, bool, torch.dtype]]]


def _switch_on() -> _Before:
    """Cast; what to give to `_switch_back`."""
    # Not `torch.autocast`: its regions nest, and the models' own must be outermost for their cache to be cleared.
    cache = torch.is_autocast_cache_enabled()
    before = []
    for device_type, dtype in _here.dtypes.items():
        before.append((device_type, torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)))
        _set(device_type, True, dtype, cache=False)
    return cache, before


def _switch_back(before: _Before) -> None:
    cache, devices = before
    for device_type, enabled, dtype in devices:
        _set(device_type, enabled, dtype, cache)


def _set(device_type: str, enabled: bool, dtype: torch.dtype, cache: bool) -> None:
    torch.set_autocast_enabled(device_type, enabled)
    torch.set_autocast_dtype(device_type, dtype)
    torch.set_autocast_cache_enabled(cache)


def _watch_forks() -> None:
    """Forked children inherit their parent's casts, and a DataLoader's worker must not cast the data it makes.

    A child that trains casts again from the first forward of an initialized model on.
    """
    if _process.watches_forks or not hasattr(os, "register_at_fork"):
        return
    _process.watches_forks = True
    os.register_at_fork(after_in_child=_start_afresh)


def _start_afresh() -> None:
    for _ in range(torch.autocast_increment_nesting()):
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()
    withdraw()
    forget_regions()
