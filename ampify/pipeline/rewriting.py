"""Makes the planned edits, file by file, and passes each result through the gate; in several processes if it pays."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ampify.gate import check
from ampify.model.edit import Edit, EditLines
from ampify.model.section import Section
from ampify.model.source import SourceFile
from ampify.pipeline.refused_text import refused_text
from ampify.rewrite import NestsDeeply, RewriteFailed, load_editor, rewrite, rewrite_lines
from ampify.source import decode_source

Job: TypeAlias = tuple[SourceFile, tuple[Edit, ...], tuple[Section, ...]]

# A worker costs about as much to start, LibCST included, as a dozen files take to rewrite; it should pay twice.
FILES_PER_WORKER = 24

_log = logging.getLogger("ampify")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One file's new text, or why there is none; `trace` shows where ampify itself failed, or what the gate refused."""

    path: str
    text: str | None
    failure: str = ""
    trace: str = ""


def rewrite_files(jobs: Sequence[Job], workers: int) -> tuple[Rewritten, ...]:
    """Every job's result, in the order of the jobs, whatever the number of workers."""
    useful = min(workers, len(jobs) // FILES_PER_WORKER)
    tried = [None if useful > 1 else _rewritten_here(job) for job in jobs]
    apart = [number for number, result in enumerate(tried) if result is None]
    for number, result in _rewritten_apart([jobs[number] for number in apart], max(useful, 1)):
        tried[apart[number]] = result
    results = tuple(result for result in tried if result is not None)
    for result in results:
        if result.trace:
            _log.debug("%s: %s", result.path, result.trace)
    return results


def _rewritten_here(job: Job) -> Rewritten | None:
    """The result, made in this process; None for code so deep that LibCST might take the process down."""
    try:
        return rewrite_file(job, shallow=True)
    except NestsDeeply:
        return None


def _rewritten_apart(jobs: Sequence[Job], workers: int) -> Iterator[tuple[int, Rewritten]]:
    """The number of each job with its result, made in processes that may be lost."""
    if not jobs:
        return
    from ampify.pipeline.workers import Lost, spread  # most runs need none

    # Once for all: workers start as copies of this process.
    load_editor()
    for number, result in spread(rewrite_file, jobs, workers):
        if isinstance(result, Lost):
            result = Rewritten(jobs[number][0].path, None, f"rewriting it {result.reason}")
        yield number, result


def rewrite_file(job: Job, *, shallow: bool = False) -> Rewritten:
    """One file's new text, if it can be made and passes the gate; with `shallow`, raises NestsDeeply for deep code."""
    source, edits, sections = job
    try:
        text, failure = _edited(source, edits, sections, shallow=shallow)
    except NestsDeeply:
        raise
    except RewriteFailed as refusal:
        return Rewritten(source.path, None, str(refusal))
    except Exception as problem:  # noqa: BLE001 (one file's failure is that file's alone, and is reported)
        return Rewritten(source.path, None, f"{type(problem).__name__}: {problem}", traceback.format_exc())
    if failure:
        return Rewritten(source.path, None, failure, refused_text(source.path, source.text, text))
    return Rewritten(source.path, text)


def renewed(source: SourceFile, text: str) -> SourceFile:
    """The file as it is read again once `text` is written."""
    if text == source.text:
        return source
    raw = source.encode(text)
    # Where the cells of a notebook are is to be found anew.
    return decode_source(raw, source.path) if source.notebook else replace(source, raw=raw, text=text)


def _edited(
    source: SourceFile, edits: Sequence[Edit], sections: Sequence[Section], *, shallow: bool
) -> tuple[str, str | None]:
    """The new text, and what the gate has against it; what is not Python has no gate to pass."""
    if any(isinstance(edit, EditLines) for edit in edits):
        return rewrite_lines(source, edits), None
    text = rewrite(source, edits, sections, shallow=shallow)
    return text, check(source, text, edits)
