"""Runs the stages that look into the files and rewrite them: index, rules, plan, rewrite and gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from ampify.index import build_project, sites_aside
from ampify.model.facts import FileFacts
from ampify.model.plan import Report
from ampify.model.progress import Told, untold
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.model.site import LedgerEntry
from ampify.pipeline.assembling import file_outcomes, loop_summaries, refusal_reasons, unreadable_findings
from ampify.pipeline.extracting import extract_files
from ampify.pipeline.reading import Reading
from ampify.pipeline.repairing import repair_sources
from ampify.pipeline.settling import Settled, settle
from ampify.pipeline.thinning import shown_whole, thin_sources
from ampify.plan.ledger import by_place
from ampify.plan.silence import asks_to_be_skipped, read_comments
from ampify.stack import with_much_room


def migrate(
    reading: Reading,
    settings: Settings,
    *,
    prove: bool = True,
    targets: Mapping[str, Path] = MappingProxyType({}),
    told: Told = untold,
) -> Report:
    """What is found in the files that were read, and their new texts; the arguments are those of a run."""
    thinned = thin_sources(reading.sources)
    thin = replace(reading, sources={**reading.sources, **{path: thin.after for path, thin in thinned.items()}})
    report = _migrated(thin, settings, prove, targets, told)
    outcomes = tuple(shown_whole(outcome, thinned.get(outcome.path)) for outcome in report.outcomes)
    if any(outcome is None for outcome in outcomes):
        # An edit went into a list: then it is looked at as a whole.
        return _migrated(reading, settings, prove, targets, told)
    return replace(report, outcomes=tuple(outcome for outcome in outcomes if outcome is not None))


def _migrated(reading: Reading, settings: Settings, prove: bool, targets: Mapping[str, Path], told: Told) -> Report:
    repairs = repair_sources(reading.sources, settings, targets)
    sources = {**reading.sources, **{path: repair.source for path, repair in repairs.after.items()}}
    extracted = extract_files(tuple(sources.values()), settings.jobs, told)

    def work() -> tuple[Project, Settled]:
        project = build_project(tuple(sources.values()), settings, extracted.known, reading.crowded, told)
        return project, settle(project, sources, settings, prove=prove, targets=targets)

    project, settled = with_much_room(work) if extracted.deep else work()
    plan = settled.plan
    asking = {path for path, source in reading.sources.items() if asks_to_be_skipped(source.raw)}
    unread = (*reading.failures, *(finding for finding in project.unreadable if finding.anchor.path not in asking))
    unparsed = frozenset(finding.anchor.path for finding in project.unreadable)
    skipped = reading.skipped | (asking & unparsed) | read_comments(project.files.values()).skipped
    outcomes = file_outcomes(
        reading.seen,
        {**sources, **reading.aside},
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
        ledger=_with_others(plan.ledger, reading, settings, told),
        target=settings.target,
    )


def _with_others(
    ledger: tuple[LedgerEntry, ...], reading: Reading, settings: Settings, told: Told
) -> tuple[LedgerEntry, ...]:
    """The ledger with the sites of files that have to do with no training; what does not parse there has none."""
    known = extract_files(tuple(reading.aside.values()), settings.jobs, told).known.values()
    sites = sites_aside((facts for facts in known if isinstance(facts, FileFacts)), explained=settings.evidence)
    entries = (*ledger, *(LedgerEntry(site, "not_training", "") for site in sites))
    return tuple(sorted(entries, key=by_place))
