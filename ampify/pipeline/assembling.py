"""Puts together what the stages found and did, in the order that every report keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ampify.model.finding import Finding
from ampify.model.plan import FileStatus, LoopSummary, Outcome, Plan
from ampify.model.settings import Settings
from ampify.model.source import SourceFile

if TYPE_CHECKING:  # it takes long to load
    from ampify.model.project import Project, TrainingLoop


def unreadable_findings(findings: Iterable[Finding], settings: Settings) -> tuple[Finding, ...]:
    """Findings on files that nothing can be said of: a person has to look, so each refuses."""
    return tuple(
        replace(finding, refuses=True) for finding in findings if settings.wants(finding.code, finding.anchor.path)
    )


def file_outcomes(
    seen: Iterable[str],
    sources: Mapping[str, SourceFile],
    texts: Mapping[str, str],
    unread: Mapping[str, Finding],
    skipped: frozenset[str],
    refusals: Mapping[str, str],
) -> tuple[Outcome, ...]:
    """What became of each file that was looked at. `refusals` are the codes of what was refused there, in words."""
    return tuple(
        _outcome(path, sources.get(path), texts.get(path), unread.get(path), path in skipped, refusals.get(path, ""))
        for path in seen
    )


def _outcome(
    path: str, source: SourceFile | None, text: str | None, unread: Finding | None, skipped: bool, refusal: str
) -> Outcome:
    if unread is not None:
        return Outcome(path, "failed", source, reason=f"{unread.code}: {unread.message}")
    if skipped:
        return Outcome(path, "skipped", source, reason="it asks to be skipped")
    status: FileStatus = "changed" if text is not None else "refused" if refusal else "unchanged"
    return Outcome(path, status, source, text, refusal)


def refusal_reasons(plan: Plan) -> dict[str, str]:
    """By file, the codes of what was refused in it."""
    codes: dict[str, set[str]] = {}
    for finding in plan.findings:
        if finding.refuses:
            codes.setdefault(finding.anchor.path, set()).add(finding.code)
    for entry in plan.ledger:
        if entry.state == "refused":
            codes.setdefault(entry.site.anchor.path, set()).add(entry.code)
    return {path: f"refused: {', '.join(sorted(found))}" for path, found in codes.items()}


def loop_summaries(project: Project, plan: Plan) -> tuple[LoopSummary, ...]:
    """Every training loop with what became of it, by place.

    One on apex's amp is migrated when what it imports is: none of its own sites need change for that.
    """
    made = {group for group, _ in plan.groups}
    moved = {name for group in project.apex if group.amp and group.id in made for name in group.loops}
    refused = {finding.loop for finding in plan.findings if finding.refuses}
    refused |= {entry.site.loop for entry in plan.ledger if entry.state == "refused"}
    # One that is refused stays so beside imports that move.
    made |= {loop.id for loop in project.loops if loop.through_amp and loop.id in moved - refused}
    loops = sorted(project.loops, key=lambda loop: (loop.anchor, loop.id))
    return tuple(_summary(loop, loop.id in made, loop.id in refused) for loop in loops)


def _summary(loop: TrainingLoop, migrated: bool, refused: bool) -> LoopSummary:
    start = loop.initialize_anchor
    return LoopSummary(
        id=loop.id,
        path=loop.anchor.path,
        line=loop.anchor.line,
        models=loop.models,
        optimizers=loop.optimizers,
        backwards=tuple((anchor.path, anchor.line) for anchor in loop.backwards),
        initialize=(start.path, start.line) if start else None,
        state="migrated" if migrated else "refused" if refused else "right",
        had_amp=loop.through_amp,
    )
