"""Loops in torch's own mixed precision: what they scale with, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass

from ampify.model.anchor import Anchor


@dataclass(frozen=True, slots=True)
class Repair:
    """What a fix needs: the place it goes to, and the expressions, in scope there, that it is made of."""

    anchor: Anchor
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Defect:
    """One mistake. `kind` is the name of the rule that reports it, `detail` completes that rule's message; `repair` is
    None where no fix is exact."""

    kind: str
    anchor: Anchor
    detail: str = ""
    related: tuple[tuple[Anchor, str], ...] = ()
    repair: Repair | None = None


@dataclass(frozen=True, slots=True)
class NativeAmp:
    """That a loop is in torch's mixed precision, and its mistakes, by place."""

    defects: tuple[Defect, ...] = ()


@dataclass(frozen=True, slots=True)
class Respelling:
    """The uses of `torch.cuda.amp` in one file: what text each place gets, or why the file must be done by hand."""

    path: str
    places: tuple[Anchor, ...]
    texts: tuple[tuple[Anchor, str], ...] = ()
    obstacle: str = ""
