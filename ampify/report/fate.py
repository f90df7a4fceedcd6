"""What became of a training loop, as a reader sees it, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from ampify.model.plan import Report

Fate: TypeAlias = Literal["migrated", "mended", "right", "refused"]

# Those that a run changes first.
FATES: Final[tuple[Fate, ...]] = ("migrated", "mended", "right", "refused")
_WORDS: Final[Mapping[Fate, str]] = {
    "migrated": "migrated",
    "mended": "mended",
    "right": "right already",
    "refused": "not migrated",
}


def fates_of(report: Report) -> Mapping[str, Fate]:
    """The fate of each loop, by its id.

    One that is in mixed precision already and has a place that is rewritten was not right: it is mended.
    """
    rewritten = {entry.site.loop for entry in report.ledger if entry.state == "rewritten"}
    return {
        loop.id: "mended" if loop.state == "right" and loop.id in rewritten else loop.state for loop in report.loops
    }


def fate_in_words(fate: Fate, *, wrote: bool) -> str:
    """The fate as what follows the loop: `migrated`, or `would be migrated` where nothing is written."""
    changes = fate in ("migrated", "mended")
    return f"would be {_WORDS[fate]}" if changes and not wrote else _WORDS[fate]
