"""Answers a run over files that an earlier run has seen from what that one found.

The unit is the whole run: what is found in one file depends on others. Facts of single files are not kept: even a
reader that checks nothing takes half as long to read them back as it takes to make them anew.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import ampify
from ampify.cache import Entries, Malformed, cache_folder, read_value, written_value
from ampify.model.plan import Outcome, Report
from ampify.model.settings import Settings
from ampify.model.source import SourceFile
from ampify.pipeline.reading import Reading

# With fewer bytes to analyse a run is over before an entry would be written.
WORTH_KEEPING = 100_000


@dataclass(frozen=True, slots=True)
class _Kept:
    """A report without the sources, which the reader has at hand: the paths of those that it had."""

    report: Report
    with_source: tuple[str, ...]


def remembered(reading: Reading, settings: Settings, prove: bool, make: Callable[[], Report]) -> Report:
    """The report on what was read: an earlier run's on the same, or else the one that `make` makes."""
    folder = cache_folder() if settings.cache else None
    if folder is None or sum(len(source.raw) for source in reading.texts.values()) < WORTH_KEEPING:
        return make()
    entries = Entries(folder)
    key = _key(reading, settings, prove)
    known = _found(entries, key, reading)
    if known is not None:
        return known
    report = make()
    texts = reading.texts
    if all(outcome.before in (None, texts.get(outcome.path)) for outcome in report.outcomes):
        entries.keep(key, written_value(_kept(report)))
    return report


def _kept(report: Report) -> _Kept:
    bare = tuple(replace(outcome, before=None) for outcome in report.outcomes)
    return _Kept(replace(report, outcomes=bare), tuple(o.path for o in report.outcomes if o.before is not None))


def _found(entries: Entries, key: str, reading: Reading) -> Report | None:
    data = entries.find(key)
    if data is None:
        return None
    try:
        kept: _Kept = read_value(data, _Kept)
        sourced = frozenset(kept.with_source)
        texts = reading.texts
        outcomes = tuple(_with_source(o, texts) if o.path in sourced else o for o in kept.report.outcomes)
    except (Malformed, KeyError):
        return None
    return replace(kept.report, outcomes=outcomes)


def _with_source(outcome: Outcome, texts: Mapping[str, SourceFile]) -> Outcome:
    return replace(outcome, before=texts[outcome.path])


def _key(reading: Reading, settings: Settings, prove: bool) -> str:
    """A digest of all that a report depends on: what was read, the settings, ampify itself, and the Python it runs on,
    whose parser decides what can be read."""
    digest = hashlib.sha256()
    place = Path(settings.root).absolute()
    about = (_own_state(), sys.version, platform.machine(), str(place), replace(settings, jobs=1), prove)
    for part in (
        about,
        tuple(reading.seen),
        sorted(reading.skipped),
        sorted(reading.crowded),
        sorted(reading.aside),
        reading.failures,
    ):
        digest.update(repr(part).encode("utf-8", "surrogatepass"))
    for path, source in reading.texts.items():
        digest.update(repr((path, len(source.raw))).encode("utf-8", "surrogatepass"))
        digest.update(source.raw)
    return digest.hexdigest()


def _own_state() -> tuple[object, ...]:
    """The version of ampify, and the state of its files: between versions they change as well."""
    home = Path(ampify.__file__).parent
    states = ((path, path.stat()) for path in sorted(home.rglob("*.py")))
    return (ampify.__version__, *((str(path.relative_to(home)), s.st_size, s.st_mtime_ns) for path, s in states))
