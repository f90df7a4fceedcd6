"""What a rule has to say about one place."""

from __future__ import annotations

from dataclasses import dataclass

from ampify.model.anchor import Anchor
from ampify.model.edit import Applicability, Fix


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that a finding speaks of, and what it is there for."""

    anchor: Anchor
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's remark on one place.

    `message` says what is there and why it matters; `hint` what a person can do about it. `refuses` marks a finding
    that forbids migrating its `loop` (or, without a loop, this site). `anchor.path` is the file it is reported in.
    """

    code: str
    name: str
    anchor: Anchor
    message: str
    hint: str = ""
    fix: Fix | None = None
    refuses: bool = False
    loop: str | None = None
    related: tuple[Related, ...] = ()

    @property
    def applicability(self) -> Applicability:
        """That of the fix; "none" without one."""
        return self.fix.applicability if self.fix else "none"
