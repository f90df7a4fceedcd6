"""Runs the command line over a folder in a process of its own, and reads its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
TIME_LIMIT = 120


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding as the report has it."""

    path: str
    line: int
    code: str


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A site as the report has it."""

    path: str
    line: int
    kind: str
    state: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.kind} {self.state}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one run of the command line gave."""

    status: int
    report: dict[str, Any] = field(repr=False)
    stderr: str = field(repr=False)

    @property
    def findings(self) -> tuple[FindingRow, ...]:
        """All findings, in the report's order."""
        rows = self.report["findings"]
        return tuple(FindingRow(_short(row["path"]), row["line"], row["code"]) for row in rows)

    @property
    def ledger(self) -> tuple[LedgerRow, ...]:
        """All sites, in the report's order."""
        rows = self.report["sites"]
        return tuple(LedgerRow(_short(row["path"]), row["line"], row["kind"], row["state"]) for row in rows)

    @property
    def explanation(self) -> str:
        """Why the files and findings are what they are, for the reader of a failed test."""
        files = (f"{file['path']}: {file['status']} {file['reason']}" for file in self.report["files"])
        findings = (f"{row['path']}:{row['line']} {row['code']} {row['message']}" for row in self.report["findings"])
        return "\n".join((*files, *findings, self.stderr))

    def paths(self, status: str) -> tuple[str, ...]:
        """The files that the report gives this status."""
        return tuple(_short(file["path"]) for file in self.report["files"] if file["status"] == status)


def ampify(folder: Path, *options: str) -> Answer:
    """The answer of `python -m ampify . --format json` with `options`, run in `folder`."""
    command = [sys.executable, "-m", "ampify", ".", "--format", "json", *options]
    done = subprocess.run(
        command, cwd=folder, env=python_environment(), capture_output=True, timeout=TIME_LIMIT, check=False
    )
    stderr = done.stderr.decode("utf-8", "replace")
    try:
        report = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(
            f"no JSON from {' '.join(command[1:])} in {folder}: exit {done.returncode}\n{stderr}"
        ) from None
    return Answer(done.returncode, report, stderr)


def python_environment() -> dict[str, str]:
    """The environment in which both packages are found as they are here, whatever is installed."""
    path = os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "runtime")))
    return os.environ | {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}


def _short(path: str) -> str:
    """Without the folder that was asked for, `.`."""
    return path.removeprefix("./")
