"""One repository's work, as it goes to the process that does it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ampify.bulk.sources import Source

# What a repository's folder holds besides its state.
CHECKOUT = "checkout"
REPORTS = ("report.json", "pr.md", "out.html")
LOG = "log.txt"


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done with one repository, and where its results go.

    `folder` is absolute, and so is `marker`: a file that is there for as long as the run is wanted, and that every
    worker must be able to see. `options` are those of the migration, by the names of their flags. `depth` is how many
    commits are fetched (0: all), `timeout` is in seconds, `memory` in MiB of address space (0: as much as there is).
    `version` is that of the ampify that asks.
    """

    source: Source
    folder: str
    marker: str
    branch: str
    depth: int
    options: Mapping[str, Any]
    timeout: float
    memory: int
    retry_failed: bool
    version: str

    @property
    def name(self) -> str:
        """What the repository is called in this run."""
        return self.source.name

    @property
    def run(self) -> str:
        """What tells this run's unfinished work from that of others."""
        return Path(self.marker).name

    @property
    def settings(self) -> str:
        """SHA-256 in hexadecimal of all that decides what the result is, but for the repository itself."""
        said = json.dumps([self.branch, self.depth, dict(sorted(self.options.items()))])
        return hashlib.sha256(said.encode()).hexdigest()

    def inside(self, folder: Path) -> Job:
        """The same work, done in another folder."""
        return replace(self, folder=str(folder))

    def to_json(self) -> str:
        """As one line, for the standard input of the process that does it."""
        return json.dumps(asdict(self))


def job_from_json(line: str) -> Job:
    """The reverse of `Job.to_json`; lists become tuples, as options have them."""
    fields = json.loads(line)
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.pop("options").items()}
    return Job(source=Source(**fields.pop("source")), options=options, **fields)
