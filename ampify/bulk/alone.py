"""The process that one repository has to itself: `python -m ampify.bulk.alone`, with a job on its standard input.

What it came to stands in the job's folder. It ends with the process that started it, whose end closes its input.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from ampify import pipeline
from ampify.bulk.job import Job, job_from_json
from ampify.bulk.migrating import migrate_repository
from ampify.bulk.problem import RepositoryFailed
from ampify.bulk.state import State, state_of, write_state

_PROBLEMS: Final[tuple[type[Exception], ...]] = (RepositoryFailed, *pipeline.PROBLEMS)
_MIB: Final = 2**20
# ru_maxrss is in KiB, except on macOS, where it is in bytes.
_PER_MIB: Final = _MIB if sys.platform == "darwin" else 1024


def main() -> None:
    """Does the job that standard input names in one line."""
    job = job_from_json(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if job.memory:
        resource.setrlimit(resource.RLIMIT_AS, (job.memory * _MIB, job.memory * _MIB))
    started = time.monotonic()
    state = _outcome(job)
    used = resource.getrusage(resource.RUSAGE_SELF)
    state = replace(
        state,
        seconds=round(time.monotonic() - started, 2),
        cpu_seconds=round(used.ru_utime + used.ru_stime, 2),
        peak_mib=used.ru_maxrss // _PER_MIB,
    )
    write_state(Path(job.folder), state)


def _outcome(job: Job) -> State:
    try:
        return migrate_repository(job)
    except _PROBLEMS as problem:
        return state_of(job, "failed", reason=str(problem))
    except MemoryError:
        return state_of(job, "failed", reason=f"needed more than {job.memory} MiB of memory; see --memory")


def _end_with_parent() -> None:
    # The descriptor itself: a buffered reader would keep its lock, and the interpreter could not end.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
