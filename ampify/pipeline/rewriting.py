"""Makes the planned edits, file by file, and passes each result through the gate; in several processes if it pays."""

from __future__ import annotations

import logging
import signal
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ampify.gate import check
from ampify.model.edit import Edit, EditLines
from ampify.model.section import Section
from ampify.model.source import SourceFile
from ampify.rewrite import RewriteFailed, rewrite, rewrite_lines
from ampify.source import decode_source

Job: TypeAlias = tuple[SourceFile, tuple[Edit, ...], tuple[Section, ...]]

# A worker costs about as much to start, LibCST included, as a dozen files take to rewrite; it should pay twice.
FILES_PER_WORKER = 24

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
        from concurrent.futures import ProcessPoolExecutor  # most runs need none of it

        with ProcessPoolExecutor(useful, initializer=_leave_interrupts_to_the_parent) as pool:
            results = tuple(pool.map(rewrite_file, jobs, chunksize=FILES_PER_WORKER // 6))
    for result in results:
        if result.trace:
            _log.debug("%s: %s", result.path, result.trace)
    return results


def rewrite_file(job: Job) -> Rewritten:
    """One file's new text, if it can be made and passes the gate."""
    source, edits, sections = job
    try:
        text, failure = _edited(source, edits, sections)
    except RewriteFailed as refusal:
        return Rewritten(source.path, None, str(refusal))
    except Exception as problem:  # noqa: BLE001 (one file's failure is that file's alone, and is reported)
        return Rewritten(source.path, None, f"{type(problem).__name__}: {problem}", traceback.format_exc())
    return Rewritten(source.path, None, failure) if failure else Rewritten(source.path, text)


def renewed(source: SourceFile, text: str) -> SourceFile:
    """The file as it is read again once `text` is written."""
    if text == source.text:
        return source
    raw = source.encode(text)
    # Where the cells of a notebook are is to be found anew.
    return decode_source(raw, source.path) if source.notebook else replace(source, raw=raw, text=text)


def _edited(source: SourceFile, edits: Sequence[Edit], sections: Sequence[Section]) -> tuple[str, str | None]:
    """The new text, and what the gate has against it; what is not Python has no gate to pass."""
    if any(isinstance(edit, EditLines) for edit in edits):
        return rewrite_lines(source, edits), None
    text = rewrite(source, edits, sections)
    return text, check(source, text, edits)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
