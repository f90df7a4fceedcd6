"""Makes the planned edits, file by file, and passes each result through the gate; in several processes if it pays."""

from __future__ import annotations

import logging
import signal
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

from ampify.gate import check
from ampify.model.edit import Edit, EditLines
from ampify.model.source import SourceFile

Job: TypeAlias = tuple[SourceFile, tuple[Edit, ...]]

# A worker costs about as much to start, LibCST included, as this many files take to rewrite.
FILES_PER_WORKER = 8

_log = logging.getLogger("ampify")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One file's new text, or why there is none; `trace` shows where ampify itself failed."""

    path: str
    text: str | None
    failure: str = ""
    trace: str = ""


def rewrite_files(jobs: Sequence[Job], workers: int) -> tuple[Rewritten, ...]:
    """Every job's result, in the order of the jobs, whatever the number of workers."""
    useful = min(workers, len(jobs) // FILES_PER_WORKER)
    if useful < 2:
        results = tuple(map(rewrite_file, jobs))
    else:
        with ProcessPoolExecutor(useful, initializer=_leave_interrupts_to_the_parent) as pool:
            results = tuple(pool.map(rewrite_file, jobs, chunksize=FILES_PER_WORKER // 2))
    for result in results:
        if result.trace:
            _log.debug("%s: %s", result.path, result.trace)
    return results


def rewrite_file(job: Job) -> Rewritten:
    """One file's new text, if it can be made and passes the gate."""
    source, edits = job
    try:
        text = _edited(source, edits)
        failure = _unacceptable(source, text, edits)
    except Exception as problem:  # noqa: BLE001 (one file's failure is that file's alone, and is reported)
        return Rewritten(source.path, None, f"{type(problem).__name__}: {problem}", traceback.format_exc())
    return Rewritten(source.path, None, failure) if failure else Rewritten(source.path, text)


def renewed(source: SourceFile, text: str) -> SourceFile:
    """The file as it is read again once `text` is written."""
    return source if text == source.text else replace(source, raw=source.encode(text), text=text)


def _edited(source: SourceFile, edits: Sequence[Edit]) -> str:
    # LibCST takes 0.3 s to import, and most runs rewrite nothing.
    from ampify.rewrite import rewrite, rewrite_lines

    if any(isinstance(edit, EditLines) for edit in edits):
        return rewrite_lines(source, edits)
    return rewrite(source, edits)


def _unacceptable(source: SourceFile, text: str, edits: Sequence[Edit]) -> str | None:
    if any(isinstance(edit, EditLines) for edit in edits):
        return None
    try:
        source.encode(text)
    except UnicodeEncodeError:
        return f"the new text has a character that the file's encoding, {source.encoding}, lacks"
    return check(source, text, edits)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
