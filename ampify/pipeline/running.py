"""Runs the stages one after the other, from paths to a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from ampify.model.plan import Report
from ampify.model.progress import Told, untold
from ampify.model.settings import Settings
from ampify.pipeline.assembling import file_outcomes, unreadable_findings
from ampify.pipeline.reading import Reading, read_files, read_text

STDIN = "<stdin>"
SCALER = "GradScaler("
# Rules whose fixes take imports of apex away, and those that say why one stays.
OFF_APEX = frozenset({"AMP502", "AMP511"})
ON_APEX = frozenset({"AMP502", "AMP503", "AMP512", "AMP513", "AMP514"})


def run(
    paths: Sequence[Path], settings: Settings, *, prove: bool = True, writing: bool = False, told: Told = untold
) -> Report:
    """What a run over `paths` finds and would write; writes nothing.

    `prove` asks that a second run over the result would change nothing: needed where the result is shown or written.
    `writing` tells that it is to be written: then what may not be is left out, with all that belongs to it.
    `told` hears how far it is.

    Raises MissingPath, VendorConflict, and RuleFailed, each with what to do.
    """
    reading = read_files(paths, settings.exclude)
    if writing or not reading.texts:
        # What is written comes from the files alone, and from what forbids writing them now.
        report = _migrate(reading, settings, prove=prove, targets=reading.seen if writing else {}, told=told)
    else:
        from ampify.pipeline.remembering import remembered

        report = remembered(reading, settings, prove, lambda: _migrate(reading, settings, prove=prove, told=told))
    needed = SCALER if settings.target == "native" else settings.runtime_module
    moved = _moved_off_apex(report)
    changed = [
        o for o in report.outcomes if o.before and o.after is not None and (needed in o.after or o.path in moved)
    ]
    if not changed:
        return report
    from ampify.pipeline.surroundings import surround, surround_native

    bounds = [Path(settings.root), *(path if path.is_dir() else path.parent for path in paths)]
    migrated = [(reading.seen[o.path], o.before) for o in changed if o.before]
    if settings.target == "native":
        around = surround_native(migrated, bounds, settings, off_apex=bool(moved), writing=writing)
    else:
        around = surround(migrated, bounds, settings, off_apex=bool(moved), writing=writing)
    findings = sorted((*report.findings, *around.findings), key=lambda finding: (finding.anchor, finding.code))
    return replace(report, outcomes=(*report.outcomes, *around.outcomes), findings=tuple(findings))


def _moved_off_apex(report: Report) -> frozenset[str]:
    """The files whose imports of apex are gone; none if one is left anywhere."""
    moved = {f.anchor.path for f in report.findings if f.code in OFF_APEX and f.fix}
    left = any(f.code in ON_APEX and f.refuses for f in report.findings)
    changed = {outcome.path for outcome in report.outcomes if outcome.after is not None}
    return frozenset() if left or not moved <= changed else frozenset(moved)


def run_text(raw: bytes, settings: Settings) -> Report:
    """As `run`, on one file's bytes from standard input; what surrounds a file is not looked at."""
    return _migrate(read_text(raw, STDIN), settings)


def _migrate(
    reading: Reading,
    settings: Settings,
    *,
    prove: bool = True,
    targets: Mapping[str, Path] = MappingProxyType({}),
    told: Told = untold,
) -> Report:
    if not reading.texts:
        return _nothing_to_read(reading, settings)
    # Loading the stages takes longer than finding out that there is nothing to do.
    from ampify.pipeline.migrating import migrate

    return migrate(reading, settings, prove=prove, targets=targets, told=told)


def _nothing_to_read(reading: Reading, settings: Settings) -> Report:
    """The report where no file can matter, or those that can are not to be looked into."""
    unread = {finding.anchor.path: finding for finding in reading.failures}
    outcomes = file_outcomes(reading.seen, {}, {}, unread, reading.skipped, {})
    findings = sorted(unreadable_findings(reading.failures, settings), key=lambda f: (f.anchor, f.code))
    return Report(outcomes=outcomes, findings=tuple(findings), loops=(), ledger=())
