"""How far a run is, as the stages tell it to whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# What is being done, how many of how many are done, and the file that is next.
Told: TypeAlias = Callable[[str, int, int, str], None]


def untold(_doing: str, _done: int, _total: int, _path: str) -> None:
    """For runs that nobody watches."""
