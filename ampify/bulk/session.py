"""One bulk run from its list to its summary."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import ampify
from ampify.bulk.job import Job
from ampify.bulk.page import page
from ampify.bulk.problem import BulkProblem
from ampify.bulk.sources import Source
from ampify.bulk.spreading import Cluster, spread
from ampify.bulk.state import State, read_state
from ampify.bulk.summary import Summary, line_of, summary_json
from ampify.write import put_report

_RUNS: Final = ".runs"


@dataclass(frozen=True, slots=True)
class Request:
    """What a run is asked for; the fields are as in `Job` and `Cluster`."""

    sources: Sequence[Source]
    out: Path
    options: Mapping[str, Any]
    cluster: Cluster
    branch: str = "ampify/mixed-precision"
    depth: int = 1
    timeout: float = 900.0
    memory: int = 4096
    retry_failed: bool = False


def run(request: Request, say: Callable[[str], None]) -> Summary:
    """Sees to every repository that is asked for and writes the summary; `say` is told of each as it is done.

    The summary is written also where the run is interrupted. Raises BulkProblem and WriteError.
    """
    out = request.out.resolve()
    with _running(out) as marker:
        jobs = [_job(source, request, out, marker) for source in request.sources]
        seen: dict[str, State] = {}
        try:
            for done in spread(jobs, request.cluster):
                seen[done.name] = done.state
                again = " (known from an earlier run)" if done.kept else ""
                say(f"[{len(seen)}/{len(jobs)}] {done.name}: {line_of(done.state)}{again}")
        finally:
            summary = Summary(tuple((job.source, seen.get(job.name) or _earlier(job)) for job in jobs))
            put_report(out / "summary.json", summary_json(summary).encode())
            put_report(out / "index.html", page(summary).encode("utf-8", "backslashreplace"))
    return summary


def _job(source: Source, request: Request, out: Path, marker: Path) -> Job:
    return Job(
        source,
        str(out / source.name),
        str(marker),
        request.branch,
        request.depth,
        request.options,
        request.timeout,
        request.memory,
        request.retry_failed,
        ampify.__version__,
    )


def _earlier(job: Job) -> State | None:
    """What a worker still finished after the run was interrupted, or an earlier run did."""
    state = read_state(Path(job.folder))
    return state if state is not None and state.answers(job) else None


@contextlib.contextmanager
def _running(out: Path) -> Iterator[Path]:
    """Holds the folder for this run alone; gives the file that tells workers that the run goes on."""
    runs = out / _RUNS
    try:
        runs.mkdir(parents=True, exist_ok=True)
        lock: IO[bytes] = (runs / "lock").open("wb")
    except OSError as error:
        raise BulkProblem(f"--out {out}: the folder cannot be used: {error.strerror}; name another") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BulkProblem(f"--out {out}: another run is at work there; wait for it, or name another") from error
        for left in runs.glob("run-*"):
            left.unlink(missing_ok=True)
        marker = runs / f"run-{os.getpid()}-{secrets.token_hex(4)}"
        marker.touch()
        try:
            yield marker
        finally:
            marker.unlink(missing_ok=True)
