"""The parts of a training loop in the order in which a batch goes through them, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from ampify.model.plan import LoopSummary
from ampify.model.site import LedgerEntry, SiteKind
from ampify.report.places import Places

StageState: TypeAlias = Literal["rewritten", "right", "refused", "not_training", "named", "absent"]
Place: TypeAlias = tuple[str, int]

# The worst decides what a stage of several sites is shown as.
_ORDER: Final[tuple[StageState, ...]] = ("refused", "rewritten", "right", "not_training", "absent")


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of a loop. `labels` are expressions of the code, or none; `named` is the state of what the loop uses and
    no site touches."""

    title: str
    state: StageState
    labels: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Flow:
    """The stages of a loop in the file `path`; `names` names the lines.

    A batch goes from `first` to `last` (indices) and back again, by way of `cleared`.
    """

    path: str
    stages: tuple[Stage, ...]
    first: int
    last: int
    cleared: tuple[Place, ...]
    names: Places = field(default_factory=Places)


def flow_of(loop: LoopSummary, entries: Sequence[LedgerEntry], names: Places | None = None) -> Flow:
    """How a loop runs, from its ledger."""
    stages = tuple(_stages(loop, entries))
    titles = [stage.title for stage in stages]
    first, last = titles.index("backward"), titles.index("step")
    return Flow(loop.path, stages, first, last, _places(entries, "zero_grad"), names or Places())


def _stages(loop: LoopSummary, entries: Sequence[LedgerEntry]) -> Iterator[Stage]:
    yield Stage("model", "named" if loop.models else "absent", loop.models)
    if any(entry.site.kind == "wrap" for entry in entries):
        yield _stage("parallel", entries, "wrap")
    yield Stage("optimizer", "named" if loop.optimizers else "absent", loop.optimizers)
    yield _initialize(loop)
    yield _stage("backward", entries, "backward")
    if any(entry.site.kind == "grad_read" for entry in entries):
        yield _stage("gradients read", entries, "grad_read")
    yield _stage("clip", entries, "clip")
    yield _stage("step", entries, "step")
    yield _stage("checkpoint", entries, "save", "load")


def _initialize(loop: LoopSummary) -> Stage:
    if loop.initialize is None or loop.state == "refused":
        return Stage("initialize", "absent")
    state: StageState = "rewritten" if loop.state == "migrated" else "right"
    return Stage("initialize", state, ("amp.initialize",), (loop.initialize,))


def _stage(title: str, entries: Sequence[LedgerEntry], *kinds: SiteKind) -> Stage:
    own = [entry for entry in entries if entry.site.kind in kinds]
    states: set[StageState] = {entry.state for entry in own} or {"absent"}
    state = next(state for state in _ORDER if state in states)
    return Stage(title, state, (), _places(entries, *kinds))


def _places(entries: Sequence[LedgerEntry], *kinds: SiteKind) -> tuple[Place, ...]:
    anchors = (entry.site.anchor for entry in entries if entry.site.kind in kinds)
    return tuple(dict.fromkeys((anchor.path, anchor.line) for anchor in anchors))
