"""Reads the facts of a run's files, in worker processes where it pays, and finds out whether they need deep room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ampify.index.reading import read_facts
from ampify.model.anchor import line_anchor
from ampify.model.facts import FileFacts
from ampify.model.finding import Finding
from ampify.model.progress import Told
from ampify.model.source import SourceFile
from ampify.stack import with_modest_room, with_much_room

# The facts, or the finding that tells why there are none; None where reading needs more room.
Reading: TypeAlias = FileFacts | Finding | None

LOST_PROCESS = ("AMP904", "process-lost")
# A worker costs little to start, but what it read has to be sent, which takes half as long as reading it.
BYTES_PER_WORKER = 1_000_000


@dataclass(frozen=True, slots=True)
class Extracted:
    """Facts, or the finding that tells why there are none, by path; `deep` if some nest deeply."""

    known: Mapping[str, FileFacts | Finding]
    deep: bool


def extract_files(sources: Sequence[SourceFile], jobs: int, told: Told) -> Extracted:
    """The facts of all files, by path in the order of the paths, whatever the number of `jobs`."""
    ordered = sorted(sources, key=lambda source: source.path)
    workers = min(jobs, sum(len(source.text) for source in ordered) // BYTES_PER_WORKER, len(ordered))
    read = dict(_read_in_workers(ordered, workers, told) if workers > 1 else _read_here(ordered, told))
    deep = [source for source in ordered if read[source.path] is None]
    for source in deep:
        read[source.path] = with_much_room(lambda source=source: read_facts(source, last=True))  # type: ignore[misc]
    known = {source.path: found for source in ordered if (found := read[source.path]) is not None}
    return Extracted(known, bool(deep))


def _read_here(sources: Sequence[SourceFile], told: Told) -> Iterator[tuple[str, Reading]]:
    for number, source in enumerate(sources):
        told("reading", number, len(sources), source.path)
        yield source.path, _read_modestly(source)


def _read_in_workers(sources: Sequence[SourceFile], workers: int, told: Told) -> Iterator[tuple[str, Reading]]:
    from ampify.pipeline.workers import Lost, spread  # most runs need none

    # The largest first: they would be waited for at the end.
    largest = sorted(sources, key=lambda source: -len(source.text))
    told("reading", 0, len(sources), largest[0].path)
    for done, (number, found) in enumerate(spread(_read_modestly, largest, workers), 1):
        source = largest[number]
        told("reading", done, len(sources), source.path)
        yield source.path, _lost(source, found.reason) if isinstance(found, Lost) else found


def _read_modestly(source: SourceFile) -> Reading:
    try:
        with with_modest_room():
            return read_facts(source)
    except RecursionError:
        return None


def _lost(source: SourceFile, reason: str) -> Finding:
    message = f"reading this file {reason}; nothing in it was looked at"
    hint = "leave it out with --exclude, or split it; please report it with the file"
    return Finding(*LOST_PROCESS, line_anchor(source.path, 1), message, hint, refuses=True)
