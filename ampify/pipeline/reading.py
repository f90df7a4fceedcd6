"""Reads the files of a run: all of them as bytes, those that can matter as source text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ampify.discover import discover, names_sites, relevant
from ampify.model.anchor import line_anchor
from ampify.model.finding import Finding
from ampify.model.source import SourceFile
from ampify.plan.silence import asks_to_be_skipped
from ampify.source import UnreadableSource, decode_source, read_bytes
from ampify.source.failure import NOT_READABLE


class MissingPath(Exception):
    """A path that the user named is not there."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read. `seen` are the displays of all files looked at, in order, with the real path of each; `crowded`
    those of training files that too many others use to follow them; `aside` are files that have to do with no training,
    but hold places that the ledger lists."""

    seen: Mapping[str, Path]
    sources: Mapping[str, SourceFile]
    failures: tuple[Finding, ...] = ()
    skipped: frozenset[str] = frozenset()
    crowded: frozenset[str] = frozenset()
    aside: Mapping[str, SourceFile] = field(default_factory=dict)

    @property
    def texts(self) -> dict[str, SourceFile]:
        """Everything that was read as source text, by the names to show."""
        return {**self.sources, **self.aside}


def read_files(paths: Sequence[Path], exclude: Sequence[str]) -> Reading:
    """Reads what `paths` name; raises MissingPath if one of them does not exist."""
    discovery = discover(paths, exclude)
    if discovery.missing:
        names = ", ".join(str(path) for path in discovery.missing)
        raise MissingPath(f"no such file or folder: {names}")
    seen = {display: path for path, display in discovery.files}
    contents = {display: _bytes(path) for display, path in seen.items()}
    raw = {display: content for display, content in contents.items() if isinstance(content, bytes)}
    relevance = relevant(raw)
    # What cannot be read may matter, and nobody can tell.
    chosen = {d: content for d, content in contents.items() if d in relevance.files or not isinstance(content, bytes)}
    reading = _decode(seen, chosen.items())
    unlisted = tuple(_unlisted(folder, reason) for folder, reason in discovery.unlisted)
    return replace(
        reading,
        failures=(*unlisted, *reading.failures),
        crowded=relevance.crowded,
        aside=_aside((display, content) for display, content in raw.items() if display not in relevance.files),
    )


def read_text(raw: bytes, display: str) -> Reading:
    """As `read_files`, of bytes that are there already."""
    return _decode({display: Path(display)}, [(display, raw)])


def _aside(contents: Iterable[tuple[str, bytes]]) -> dict[str, SourceFile]:
    """Those of the files that the ledger lists something of; one that cannot be decoded keeps nobody from training."""
    sited = ((display, _source(content, display)) for display, content in contents if names_sites(content))
    return {display: source for display, source in sited if isinstance(source, SourceFile)}


def _bytes(path: Path) -> bytes | UnreadableSource:
    try:
        return read_bytes(path)
    except UnreadableSource as problem:
        return problem


def _decode(seen: Mapping[str, Path], contents: Iterable[tuple[str, bytes | UnreadableSource]]) -> Reading:
    sources: dict[str, SourceFile] = {}
    failures: list[Finding] = []
    skipped: set[str] = set()
    for display, content in contents:
        read = _source(content, display) if isinstance(content, bytes) else content
        if isinstance(read, SourceFile):
            sources[display] = read
        elif isinstance(content, bytes) and asks_to_be_skipped(content):
            skipped.add(display)
        else:
            failures.append(_unreadable(display, read))
    return Reading(seen, sources, tuple(failures), frozenset(skipped))


def _source(raw: bytes, display: str) -> SourceFile | UnreadableSource:
    try:
        return decode_source(raw, display)
    except UnreadableSource as problem:
        return problem


def _unlisted(folder: str, reason: str) -> Finding:
    hint = "give yourself permission, or leave the folder out with --exclude"
    return _unreadable(folder, UnreadableSource(NOT_READABLE, f"this folder cannot be listed: {reason}", hint))


def _unreadable(display: str, problem: UnreadableSource) -> Finding:
    where = line_anchor(display, problem.line or 1)
    return Finding(problem.code, problem.name, where, problem.message, problem.hint)
