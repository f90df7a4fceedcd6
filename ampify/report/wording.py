"""Numbers and lists as English has them, and what each kind of site and state is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ampify.model.site import SiteKind

KINDS: Final[Mapping[SiteKind, str]] = {
    "wrap": "parallel wrap",
    "zero_grad": "zero_grad",
    "backward": "backward",
    "grad_read": "gradient read",
    "clip": "gradient clip",
    "step": "step",
    "save": "checkpoint save",
    "load": "checkpoint load",
}


def counted(number: int, noun: str) -> str:
    """A number of things: `1 file`, `2,000 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def in_words(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`; empty for none."""
    *others, last = list(names) or [""]
    return f"{', '.join(others)} and {last}" if others else last
