"""The ledger: every place in the code whose fate matters, and that fate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ampify.model.anchor import Anchor
from ampify.model.evidence import Chain

SiteKind: TypeAlias = Literal["backward", "step", "zero_grad", "clip", "grad_read", "save", "load", "wrap"]
SiteState: TypeAlias = Literal["rewritten", "right", "not_training", "refused"]


@dataclass(frozen=True, slots=True)
class Site:
    """A place found by the index. `loop` is the training loop it belongs to, if any.

    `training` is False where the flow shows that the site takes no part in training (a saliency map's backward).
    `evidence` is the way of each object that the site acts on back to where it is made; empty unless it was asked for.
    """

    kind: SiteKind
    anchor: Anchor
    loop: str | None
    training: bool = True
    evidence: tuple[Chain, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A site with its final state; `code` names the rule that rewrote or refused it ("" for right and not_training)."""

    site: Site
    state: SiteState
    code: str
