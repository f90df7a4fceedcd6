"""Evidence: the way from what a site acts on back to where that is made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of the way: a place, and how the object came from there (`parameter`, `returned by build()`).

    `line` is 1-based, in the original file. `lost` says that the trail ends here without a place that makes the object.
    """

    path: str
    line: int
    how: str
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """The way of one object, nearest hop first; `object` is the expression that stands for it at the site."""

    object: str
    hops: tuple[Hop, ...]
