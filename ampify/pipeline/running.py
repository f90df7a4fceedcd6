"""Runs the stages one after the other, from paths to a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from ampify.index import build_project
from ampify.model.plan import Report
from ampify.model.progress import Told, untold
from ampify.model.settings import Settings
from ampify.pipeline.assembling import file_outcomes, loop_summaries, refusal_reasons, unreadable_findings
from ampify.pipeline.reading import Reading, read_files, read_text
from ampify.pipeline.remembering import remembered
from ampify.pipeline.repairing import repair_sources
from ampify.pipeline.settling import settle
from ampify.pipeline.surroundings import surround, surround_native
from ampify.plan.silence import asks_to_be_skipped, read_comments

STDIN = "<stdin>"
SCALER = "GradScaler("


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
    if writing:
        # What is written comes from the files alone, and from what forbids writing them now.
        report = _migrate(reading, settings, prove=prove, targets=reading.seen, told=told)
    else:
        report = remembered(reading, settings, prove, lambda: _migrate(reading, settings, prove=prove, told=told))
    needed = SCALER if settings.target == "native" else settings.runtime_module
    changed = [o for o in report.outcomes if o.before and o.after is not None and needed in o.after]
    if not changed:
        return report
    bounds = [Path(settings.root), *(path if path.is_dir() else path.parent for path in paths)]
    migrated = [(reading.seen[o.path], o.before) for o in changed if o.before]
    if settings.target == "native":
        around = surround_native(migrated, bounds, settings)
    else:
        around = surround(migrated, bounds, settings, off_apex=_off_apex(report), writing=writing)
    findings = sorted((*report.findings, *around.findings), key=lambda finding: (finding.anchor, finding.code))
    return replace(report, outcomes=(*report.outcomes, *around.outcomes), findings=tuple(findings))


def _off_apex(report: Report) -> bool:
    """Whether imports of apex moved to the runtime, and none is left."""
    moved = {finding.anchor.path for finding in report.findings if finding.code == "AMP502" and finding.fix}
    left = any(finding.code == "AMP503" for finding in report.findings)
    changed = {outcome.path for outcome in report.outcomes if outcome.after is not None}
    return bool(moved) and not left and moved <= changed


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
    repairs = repair_sources(reading.sources, settings, targets)
    sources = {**reading.sources, **{path: repair.source for path, repair in repairs.after.items()}}
    project = build_project(tuple(sources.values()), settings, crowded=reading.crowded, told=told)
    settled = settle(project, sources, settings, prove=prove, targets=targets)
    plan = settled.plan
    asking = {path for path, source in reading.sources.items() if asks_to_be_skipped(source.raw)}
    unread = (*reading.failures, *(finding for finding in project.unreadable if finding.anchor.path not in asking))
    unparsed = frozenset(finding.anchor.path for finding in project.unreadable)
    skipped = reading.skipped | (asking & unparsed) | read_comments(project.files.values()).skipped
    outcomes = file_outcomes(
        reading.seen,
        sources,
        settled.texts,
        {finding.anchor.path: finding for finding in unread},
        skipped,
        refusal_reasons(plan),
    )
    findings = (*unreadable_findings(unread, settings), *plan.findings, *repairs.findings(unparsed))
    return Report(
        outcomes=tuple(repairs.shown(outcomes, unparsed)),
        findings=tuple(sorted(findings, key=lambda finding: (finding.anchor, finding.code))),
        loops=loop_summaries(project, plan),
        ledger=plan.ledger,
    )
