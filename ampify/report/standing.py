"""What a finding came to in this run, and which of them a person should read first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from ampify.model.finding import Finding
from ampify.model.plan import LoopSummary, Report
from ampify.plan.ledger import speaks_of

Standing: TypeAlias = Literal["failed", "refused", "review", "withheld", "applied"]

# The worst first.
STANDINGS: tuple[Standing, ...] = ("failed", "refused", "review", "withheld", "applied")

_INTERNAL = "AMP9"
_UNREADABLE = "AMP00"


def ranked(report: Report) -> Mapping[Standing, tuple[Finding, ...]]:
    """The findings by what they came to, the worst first, each group in the order of the report.

    failed: ampify, or the reading of a file, failed. refused: a loop or a place is left alone because of it. review:
    it stands, and a person has to judge. withheld: its fix is safe, but its loop is refused for another reason.
    applied: fixed by this run.
    """
    unread = {outcome.path for outcome in report.outcomes if outcome.status == "failed"}
    refused_loops = {loop.id for loop in report.loops if loop.state == "refused"}
    groups: dict[Standing, list[Finding]] = {standing: [] for standing in STANDINGS}
    for finding in report.findings:
        groups[_standing(finding, unread, refused_loops)].append(finding)
    return {standing: tuple(findings) for standing, findings in groups.items()}


def told_once(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings without those that say again, of another loop, what was said of the same place."""
    told: dict[Finding, Finding] = {}
    for finding in findings:
        told.setdefault(replace(finding, loop=None, fix=None), finding)
    return tuple(told.values())


def loose_refusals(report: Report) -> int:
    """How many places are refused that belong to no training loop."""
    return len(told_once(finding for finding in ranked(report)["refused"] if finding.loop is None))


def left_alone(report: Report) -> tuple[tuple[LoopSummary, str], ...]:
    """The refused loops that no finding speaks of, each with a sentence that says why it is left as it is."""
    refusing = [finding for finding in report.findings if finding.refuses]
    quiet = (loop for loop in report.loops if loop.state == "refused" and not _spoken_of(loop, report, refusing))
    return tuple((loop, f"this training loop is left as it is, because {_reason(loop, report)}") for loop in quiet)


def _spoken_of(loop: LoopSummary, report: Report, refusing: Iterable[Finding]) -> bool:
    """Whether a refusal is told of a loop, or of a site of it: what is said of a place names no loop."""
    sites = [entry.site for entry in report.ledger if entry.site.loop == loop.id and entry.state == "refused"]
    return any(finding.loop == loop.id or any(speaks_of(finding, site) for site in sites) for finding in refusing)


def _reason(loop: LoopSummary, report: Report) -> str:
    if any(outcome.path == loop.path and outcome.status == "skipped" for outcome in report.outcomes):
        return "its file asks to be skipped"
    codes = {entry.code for entry in report.ledger if entry.site.loop == loop.id and entry.state == "refused"}
    why = f" ({', '.join(sorted(codes))})" if codes else ""
    return f"what forbids it is silenced{why}"


def _standing(finding: Finding, unread: set[str], refused_loops: set[str]) -> Standing:
    if finding.code.startswith(_INTERNAL):
        return "failed"
    if finding.code.startswith(_UNREADABLE) and finding.anchor.path in unread:
        return "failed"
    if finding.refuses:
        return "refused"
    if finding.applicability != "safe":
        return "review"
    return "withheld" if finding.loop in refused_loops else "applied"
