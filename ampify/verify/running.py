"""Runs a command in a copy of the project under the watcher, and keeps what it printed and recorded."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ampify.verify.command import Command
from ampify.verify.copies import copy_copy
from ampify.verify.origins import Origins
from ampify.verify.record import UNMOVED, Process, Raised, Records, read_records

# The watcher: code for the script's process, which this one never imports.
INSIDE = Path(__file__).parent / "inside"
VARIABLE = "AMPIFY_WATCH"
# What would decide in the script's process in our place.
_OVERRULED = ("AMPIFY_OPT_LEVEL", "AMPIFY_DTYPE", VARIABLE, "PYTHONHASHSEED")
OUTPUT, ERRORS = "output.txt", "errors.txt"
# What a process prints is kept to this many characters, its end.
MOST_OUTPUT = 4_000_000
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Workplace:
    """The folders of a verification: every run happens at `tree`, so that no path differs between two of them."""

    folder: Path
    root: Path

    @property
    def tree(self) -> Path:
        """Where the copy that runs is."""
        return self.folder / "tree"

    @property
    def original(self) -> Path:
        """The project as it is, that runs are copied from."""
        return self.folder / "original"

    @property
    def migrated(self) -> Path:
        """The project as it is migrated."""
        return self.folder / "migrated"

    @property
    def support(self) -> Path:
        """What the copies import beside the project's own code."""
        return self.folder / "support"

    def run_folder(self, name: str) -> Path:
        """Where a run's tree, records and output are kept after it."""
        return self.folder / "runs" / name


@dataclass(frozen=True, slots=True)
class Run:
    """One run: how it ended, what it printed on both streams, what was recorded.

    `tree` is its copy, as the run left it.
    """

    name: str
    status: int
    seconds: float
    timed_out: bool
    output: str
    errors: str
    records: Records
    tree: Path

    @property
    def processes(self) -> tuple[Process, ...]:
        """The processes that trained."""
        return self.records.processes

    @property
    def steps(self) -> int:
        """Optimizer steps of the process that took the most."""
        return max((len(process.steps) for process in self.processes), default=0)

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, and not well."""
        return self.status != 0 and not self.timed_out

    @property
    def raised(self) -> Raised | None:
        """The exception that ended it, if one did and the watcher saw it."""
        return self.records.raised


@dataclass(frozen=True, slots=True)
class Plan:
    """How one run differs from the others: the copy it starts from, the environment, what to watch, and where the lines
    of the copy come from."""

    name: str
    pristine: Path
    environment: tuple[tuple[str, str], ...] = ()
    steps: int = 0
    seed: int = 0
    shift: int = 0
    digest: bool = False
    plain: bool = False
    sample: int = 0
    find: bool = False
    origins: Origins = UNMOVED


def run_watched(plan: Plan, command: Command, place: Workplace, directory: Path, python: str, timeout: float) -> Run:
    """Runs `command` in a fresh copy of `plan.pristine`, in its folder `directory`; ends it after `timeout` seconds."""
    folder = place.run_folder(plan.name)
    records = folder / "records"
    records.mkdir(parents=True)
    shutil.rmtree(place.tree, ignore_errors=True)
    copy_copy(plan.pristine, place.tree)
    orders = _orders(plan, place, records)
    environment = _environment(orders, place) | dict(command.environment) | dict(plan.environment)
    words = [python or sys.executable, *(_moved(word, place) for word in command.interpreter_arguments)]
    began = time.monotonic()
    status, timed_out = _run(words, place.tree / directory, environment, folder, timeout)
    seconds = time.monotonic() - began
    place.tree.rename(folder / "tree")
    return Run(
        name=plan.name,
        status=status,
        seconds=seconds,
        timed_out=timed_out,
        output=_text(folder / OUTPUT),
        errors=plan.origins.traceback(_text(folder / ERRORS), place.tree, place.root),
        records=read_records(records, plan.origins),
        tree=folder / "tree",
    )


def _orders(plan: Plan, place: Workplace, records: Path) -> dict[str, str | int]:
    """What the watcher is told; its `orders` module says what each key means."""
    return {
        "folder": str(records),
        "tree": str(place.tree),
        "root": str(place.root),
        "steps": plan.steps,
        "seed": plan.seed,
        "shift": plan.shift,
        "digest": plan.digest,
        "plain": plan.plain,
        "sample": plan.sample,
        "find": plan.find,
    }


def _environment(orders: dict[str, str | int], place: Workplace) -> dict[str, str]:
    """The environment of a watched process: the watcher first on the path, paths of the project meaning the copy."""
    kept = {name: value for name, value in os.environ.items() if name not in _OVERRULED}
    path = [_moved(entry, place) for entry in kept.get("PYTHONPATH", "").split(os.pathsep) if entry]
    kept["PYTHONPATH"] = os.pathsep.join([str(INSIDE), *path, str(place.support)])
    return (
        {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1"}
        | kept
        | {
            VARIABLE: json.dumps(orders),
            "PYTHONHASHSEED": str(orders["seed"]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
    )


def _moved(word: str, place: Workplace) -> str:
    """A path into the project, alone or after an option's `=`, becomes the same path in the copy."""
    before, equals, after = word.rpartition("=")
    root = str(place.root)
    if after == root or after.startswith(root + os.sep):
        return f"{before}{equals}{place.tree}{after[len(root) :]}"
    return word


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[-MOST_OUTPUT:]


def _run(
    words: list[str], directory: Path, environment: dict[str, str], folder: Path, timeout: float
) -> tuple[int, bool]:
    with (folder / OUTPUT).open("wb") as output, (folder / ERRORS).open("wb") as errors:
        process = subprocess.Popen(
            words,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            return process.wait(timeout), False
        except subprocess.TimeoutExpired:
            return _end(process), True
        finally:
            # What it started and left behind, as loaders' workers, must not outlive it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> int:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        return process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
