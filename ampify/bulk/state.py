"""What became of one repository, and the file that remembers it for the next run."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from ampify.bulk.job import Job
from ampify.write import put_report

Status: TypeAlias = Literal["migrated", "unchanged", "failed"]
STATUSES: Final[tuple[Status, ...]] = ("migrated", "unchanged", "failed")
STATE: Final = "state.json"
_SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class State:
    """What became of a repository.

    `base` is the commit it was migrated from, `commit` what was made of it (empty where nothing changed). `counts` is
    the `summary` of `report.json`, `refusals` how many places each code refuses, with the code's name: a place that
    several loops share counts once. `internal` says that ampify itself failed. `seconds` is wall time, `cpu_seconds`
    and `peak_mib` (resident memory) are those of the process that migrated.
    """

    source: str
    source_digest: str
    settings: str
    version: str
    status: Status
    reason: str = ""
    internal: bool = False
    base: str = ""
    commit: str = ""
    branch: str = ""
    identity: str = ""
    counts: Mapping[str, Any] = field(default_factory=dict)
    refusals: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mib: int = 0

    @property
    def refused(self) -> int:
        """How many places are refused."""
        return sum(count for _, count in self.refusals.values())

    def answers(self, job: Job) -> bool:
        """Whether it is of the same source, settings and version as the job asks for."""
        return (self.source_digest, self.settings, self.version) == (job.source.digest, job.settings, job.version)


def state_of(job: Job, status: Status, **facts: Any) -> State:
    """A state of the job's repository."""
    return State(job.source.shown, job.source.digest, job.settings, job.version, status, branch=job.branch, **facts)


def read_state(folder: Path) -> State | None:
    """The state remembered in a repository's folder; None if there is none that this version understands."""
    try:
        fields = json.loads((folder / STATE).read_text("utf-8"))
        if fields.pop("schema") != _SCHEMA or fields["status"] not in STATUSES:
            return None
        refusals = {code: (str(name), int(count)) for code, (name, count) in fields.pop("refusals").items()}
        return State(refusals=refusals, **fields)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write_state(folder: Path, state: State) -> None:
    """Remembers a state in the repository's folder, whole or not at all; raises WriteError."""
    text = json.dumps({"schema": _SCHEMA, **asdict(state)}, indent=2) + "\n"
    put_report(folder / STATE, text.encode("utf-8", "backslashreplace"))


def new_name(job: Job) -> str:
    """A name for the folder of one attempt at a job: one whose process died may still be writing to its own."""
    return f".work-{job.run}-{os.getpid()}-{secrets.token_hex(4)}"
