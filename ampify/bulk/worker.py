"""What a worker does with a job: sees if it is done already, else has a process do it, watches, keeps the result."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import ampify
from ampify.bulk.git import is_as_left, newest_commit
from ampify.bulk.job import CHECKOUT, LOG, REPORTS, Job
from ampify.bulk.problem import BulkProblem, RepositoryFailed
from ampify.bulk.state import STATE, State, new_name, read_state, state_of, write_state

# Seconds between two looks at a process, and for a file to show on a shared disk.
_GLANCE: Final = 0.2
_PATIENCE: Final = 10.0
_LAST_WORDS: Final = 300


@dataclass(frozen=True, slots=True)
class Done:
    """A repository that is done with: what became of it, and whether that was known from an earlier run."""

    name: str
    state: State
    kept: bool = False


def carry_out(job: Job) -> Done:
    """Sees to one repository; runs on a worker, which may be on another machine.

    Raises BulkProblem if this worker cannot do any job: another version, or a folder that it does not share.
    """
    _require_fit(job)
    folder = Path(job.folder)
    known = _known(job, folder)
    if known is not None:
        return Done(job.name, known, kept=True)
    work = folder / new_name(job)
    try:
        return Done(job.name, _redone(job, folder, work))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _require_fit(job: Job) -> None:
    if ampify.__version__ != job.version:
        raise BulkProblem(
            f"a worker has ampify {ampify.__version__}, and this is {job.version}: install the same on all workers"
        )
    deadline = time.monotonic() + _PATIENCE
    while not Path(job.marker).exists():
        if time.monotonic() > deadline:
            raise BulkProblem(
                f"a worker does not see {Path(job.marker).parents[1]}: --out must be a folder that all machines share, "
                "under the same path"
            )
        time.sleep(_GLANCE)


def _known(job: Job, folder: Path) -> State | None:
    """The result of an earlier run, if it is what this one would come to."""
    state = read_state(folder)
    if state is None or not state.answers(job):
        return None
    if state.status == "failed":
        return None if job.retry_failed else state
    if not all((folder / name).is_file() for name in REPORTS):
        return None
    try:
        return state if newest_commit(job.source) == state.base else None
    except RepositoryFailed:
        # It cannot be asked now. What it came to when it could be is worth more than nothing.
        return state


def _redone(job: Job, folder: Path, work: Path) -> State:
    checkout = folder / CHECKOUT
    old = read_state(folder)
    if checkout.exists() and not is_as_left(checkout, old.commit if old else ""):
        state = state_of(job, "failed", reason=f"{checkout} was edited since it was made; move it away, then run again")
        write_state(folder, state)
        return state
    work.mkdir(parents=True)
    state = _watched(job, work)
    _put_in_place(work, folder, state)
    return state


def _watched(job: Job, work: Path) -> State:
    """What the process that does the job came to, however it ended."""
    started = time.monotonic()
    with (work / LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ampify.bulk.alone"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=work,
            env=_environment(),
            # A group of its own, so that whatever it started can be ended with it.
            start_new_session=True,
        )
        try:
            trouble = _until_done(process, job, work, started + job.timeout)
        finally:
            _end(process)
    state = None if trouble else read_state(work)
    if state is not None:
        return state
    reason = trouble or _how_it_died(process.returncode, work / LOG)
    return state_of(job, "failed", reason=reason, internal=not trouble, seconds=round(time.monotonic() - started, 2))


def _until_done(process: subprocess.Popen[bytes], job: Job, work: Path, deadline: float) -> str:
    """Waits for a process; why it is not to go on, or nothing if it ended. Raises BulkProblem if the run did."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(f"{job.inside(work).to_json()}\n".encode())
        process.stdin.flush()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GLANCE)
            return ""
        if time.monotonic() > deadline:
            return f"not done within {job.timeout:g} s; see --timeout"
        if not Path(job.marker).exists():
            # Nothing to remember: the next run has to do it.
            raise BulkProblem("the run was stopped")


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def _environment() -> Mapping[str, str]:
    """The variables of this process, by which the new one finds this ampify and nothing that lies about."""
    home = str(Path(ampify.__file__).resolve().parents[1])
    path = os.pathsep.join(part for part in (home, os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def _how_it_died(status: int, log: Path) -> str:
    if status < 0:
        return f"its process was ended by {signal.Signals(-status).name}"
    words = log.read_text("utf-8", "replace").strip().splitlines()
    said = f": {words[-1][:_LAST_WORDS]}" if words else ""
    return f"its process ended with status {status}{said}"


def _put_in_place(work: Path, folder: Path, state: State) -> None:
    """Makes an attempt the repository's result; the state goes first and comes last, so that no half of one counts."""
    (folder / STATE).unlink(missing_ok=True)
    for name in (*REPORTS, LOG):
        if (work / name).exists():
            (work / name).replace(folder / name)
    if state.status != "failed":
        shutil.rmtree(folder / CHECKOUT, ignore_errors=True)
    if state.status == "migrated":
        (work / CHECKOUT).replace(folder / CHECKOUT)
    write_state(folder, state)
    for left in folder.glob(".work-*"):
        shutil.rmtree(left, ignore_errors=True)
