"""What will be done to each file, and what each stage made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ampify.model.edit import Edit
from ampify.model.finding import Finding
from ampify.model.settings import Target
from ampify.model.site import LedgerEntry
from ampify.model.source import SourceFile

FileStatus: TypeAlias = Literal["changed", "unchanged", "refused", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Edits per file in the order of the text, findings that stand, and the ledger.

    `groups` holds, per training loop that is migrated and per fix outside of loops, the files its edits touch: if one
    of them fails, all are put back.
    """

    edits: tuple[tuple[str, tuple[Edit, ...]], ...]
    findings: tuple[Finding, ...]
    ledger: tuple[LedgerEntry, ...]
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A file after the run: `before` as read (None if its text could not be, or the file is new), `after` its new text.

    `after` is None unless `status` is "changed". `new_bytes` is the content of a file to be created (vendored runtime).
    """

    path: str
    status: FileStatus
    before: SourceFile | None = None
    after: str | None = None
    reason: str = ""
    new_bytes: bytes | None = None


@dataclass(frozen=True, slots=True)
class LoopSummary:
    """A training loop as reports show it: expressions as written in the code, lines of the original file.

    `had_amp` tells that it trained through amp before, apex's or the runtime's.
    """

    id: str
    path: str
    line: int
    models: tuple[str, ...]
    optimizers: tuple[str, ...]
    backwards: tuple[tuple[str, int], ...]
    initialize: tuple[str, int] | None
    state: Literal["migrated", "right", "refused"]
    had_amp: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """All that a run found and did, in a fixed order; the input of every writer in `ampify.report`."""

    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...]
    loops: tuple[LoopSummary, ...]
    ledger: tuple[LedgerEntry, ...]
    wrote: bool = False
    target: Target = "runtime"
