"""Owns what a verification concludes, and the exit status that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Judgement: TypeAlias = Literal["same", "within noise", "drifts", "fails", "not reproducible", "cannot verify"]

GOOD: tuple[Judgement, ...] = ("same", "within noise")
MEANINGS: Mapping[Judgement, str] = {
    "same": "at O0 every bit is the original's, and in reduced precision the losses are the same to within rounding",
    "within noise": "at O0 every bit is the original's, and in reduced precision the losses differ less than those of "
    "the original do from seed to seed",
    "drifts": "in reduced precision the script trains differently, and more so than another seed would make it",
    "fails": "the migrated script does not do what the original does",
    "not reproducible": "two runs of the original differ, so that nothing can be said of a third",
    "cannot verify": "what would have to be compared did not come to pass",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The conclusion: why, where (lines of the original and of the migrated version), and the rule likely behind it.

    `details` are further lines, such as the end of a traceback.
    """

    judgement: Judgement
    reason: str
    places: tuple[str, ...] = ()
    rule: str = ""
    details: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether the migrated version may be kept."""
        return self.judgement in GOOD
