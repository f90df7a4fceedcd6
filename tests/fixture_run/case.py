"""What a folder of `fixtures/` says about itself: its `case.toml`, read and checked."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

Expectation = Literal["migrated", "refused", "unchanged"]

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
KEYS = {"title", "shows", "expect", "flags", "exit", "findings", "native", "sites", "run"}
RUN_KEYS = {"script", "args", "tolerance", "env", "old_checkpoint"}
ROW = re.compile(r"(?P<path>[^:]+):(?P<lines>\d+(\|\d+)*) (?P<rest>.+)")

_toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file; several lines where any of them is a fair answer, as for a dict that is saved elsewhere."""

    path: str
    lines: tuple[int, ...]

    def meets(self, path: str, line: int) -> bool:
        """Whether a reported place is this one."""
        return path == self.path and line in self.lines


@dataclass(frozen=True, slots=True)
class ExpectedFinding:
    """A finding that must be reported."""

    place: Place
    code: str


@dataclass(frozen=True, slots=True)
class ExpectedSite:
    """A line of the ledger."""

    place: Place
    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class Training:
    """How a case is run: `script` once for each list in `args`, one after another in the same folder.

    `tolerance` bounds the difference of each loss under bfloat16, relative to the larger of 1 and the loss.
    `old_checkpoint` is a file that the first run writes and the last reads: one written by the original must serve the
    migrated script.
    """

    script: str
    args: tuple[tuple[str, ...], ...] = ((),)
    tolerance: float = 0.0
    env: tuple[tuple[str, str], ...] = ()
    old_checkpoint: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One folder: a tree as people wrote it, the migration written by hand, and what is to be said about it."""

    folder: Path
    title: str
    shows: str
    expect: Expectation
    flags: tuple[str, ...]
    exit_status: int
    findings: tuple[ExpectedFinding, ...]
    native: tuple[ExpectedFinding, ...]
    sites: tuple[ExpectedSite, ...]
    training: Training | None

    @property
    def name(self) -> str:
        """The folder's name, by which tests are named."""
        return self.folder.name

    @property
    def before(self) -> Path:
        """The tree as people wrote it."""
        return self.folder / "before"

    @property
    def after(self) -> Path:
        """The tree as it must become; that of before where nothing is to change."""
        after = self.folder / "after"
        return after if after.is_dir() else self.before

    @property
    def report(self) -> Path:
        """The approved report; not every case has one."""
        return self.folder / "report.json"


def all_cases() -> tuple[Case, ...]:
    """Every case, by name."""
    return tuple(load_case(path.parent) for path in sorted(FIXTURES.glob("*/case.toml")))


def load_case(folder: Path) -> Case:
    """The case in `folder`; raises ValueError for a key or a row that nothing would read."""
    table = _toml.loads((folder / "case.toml").read_text(encoding="utf-8"))
    _refuse_unknown(folder, table, KEYS)
    return Case(
        folder=folder,
        title=table["title"],
        shows=table["shows"],
        expect=table["expect"],
        flags=tuple(table.get("flags", ())),
        exit_status=table.get("exit", int(table["expect"] == "refused")),
        findings=tuple(_finding(row) for row in table.get("findings", ())),
        native=tuple(_finding(row) for row in table.get("native", ())),
        sites=tuple(_site(row) for row in table.get("sites", ())),
        training=_training(folder, table["run"]) if "run" in table else None,
    )


def _training(folder: Path, table: dict[str, Any]) -> Training:
    _refuse_unknown(folder, table, RUN_KEYS)
    args = tuple(tuple(run) for run in table.pop("args", [[]]))
    env = tuple(table.pop("env", {}).items())
    return Training(args=args, env=env, **table)


def _finding(row: str) -> ExpectedFinding:
    place, code = _row(row)
    return ExpectedFinding(place, code)


def _site(row: str) -> ExpectedSite:
    place, rest = _row(row)
    kind, state = rest.split()
    return ExpectedSite(place, kind, state)


def _row(row: str) -> tuple[Place, str]:
    match = ROW.fullmatch(row)
    if match is None:
        raise ValueError(f"{row!r} is not `path:line what`, with `|` between lines that will all do")
    lines = tuple(int(line) for line in match["lines"].split("|"))
    return Place(match["path"], lines), match["rest"]


def _refuse_unknown(folder: Path, table: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(table.keys() - known)
    if unknown:
        raise ValueError(f"{folder.name}/case.toml has {', '.join(unknown)}, which nothing reads")
