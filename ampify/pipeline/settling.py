"""Brings plan and rewriting to agree: what cannot be rewritten, or would not stay as it is, is put back whole."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from ampify.index import build_project
from ampify.model.anchor import line_anchor
from ampify.model.facts import FileFacts
from ampify.model.finding import Finding
from ampify.model.plan import Plan
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.model.source import SourceFile
from ampify.pipeline.locking import locked_groups
from ampify.pipeline.refused_text import refused_text
from ampify.pipeline.rewriting import renewed, rewrite_files
from ampify.plan.decision import make_plan
from ampify.rules import run_rules

INTERNAL_FAILURE = ("AMP901", "internal-failure")

_log = logging.getLogger("ampify")

_UNSTABLE = "a second run would change the result again"
_UNKNOWN = "a second run would refuse what this one made"


@dataclass(frozen=True, slots=True)
class Settled:
    """A plan of which every edit could be made, and the new texts by path."""

    plan: Plan
    texts: Mapping[str, str]


def settle(
    project: Project,
    sources: Mapping[str, SourceFile],
    settings: Settings,
    *,
    prove: bool = True,
    targets: Mapping[str, Path] = MappingProxyType({}),
) -> Settled:
    """The largest plan whose every edit can be made and whose result a second run would leave alone.

    Without `prove` that second run is left out: for a result that nobody will see. `targets` are the real paths of
    files that are to be written: what may not be, is left out with all that belongs to it.
    """
    findings = run_rules(project, settings)
    put_back: tuple[Finding, ...] = ()
    left: Counter[str] = Counter()
    while True:
        plan = make_plan(project, findings, settings, put_back)
        locked = locked_groups(plan, targets)
        if locked:
            left += _group_counts(plan, {refusal.loop for refusal in locked})
            put_back += locked
            continue
        texts, failures = _rewrite(project, plan, sources, settings)
        if prove and not failures:
            failures = _unstable(project, plan, texts, sources, settings, left)
            for path, reason in failures.items():
                shown = refused_text(path, sources[path].text, texts.get(path, sources[path].text))
                _log.debug("%s: %s; %s", path, reason, shown)
        if not failures:
            return Settled(plan, texts)
        refusals = _put_back(plan, failures)
        left += _group_counts(plan, {refusal.loop for refusal in refusals})
        put_back += refusals


def _rewrite(
    project: Project, plan: Plan, sources: Mapping[str, SourceFile], settings: Settings
) -> tuple[dict[str, str], dict[str, str]]:
    """New texts, and reasons for those that could not be made, by path."""
    known = project.files
    jobs = [(sources[path], edits, known[path].sections() if path in known else ()) for path, edits in plan.edits]
    results = rewrite_files(jobs, settings.jobs)
    texts = {result.path: result.text for result in results if result.text is not None}
    return texts, {result.path: result.failure for result in results if result.text is None}


def _unstable(
    first: Project,
    plan: Plan,
    texts: Mapping[str, str],
    sources: Mapping[str, SourceFile],
    settings: Settings,
    left: Counter[str],
) -> dict[str, str]:
    """The files that a second run would not take for done, and why.

    It may try again what was `left` alone, given as the number of groups by file.
    """
    if not texts:
        return {}
    again = [renewed(source, texts.get(path, source.text)) for path, source in sources.items()]
    # What could not be read is not tried again: it is as it was.
    known: dict[str, FileFacts | Finding] = {finding.anchor.path: finding for finding in first.unreadable}
    known.update(first.files)
    same = {path: found for path, found in known.items() if path not in texts}
    project = build_project(again, replace(settings, evidence=False), same, first.crowded)
    second = make_plan(project, run_rules(project, settings), settings)
    groups = _group_counts(second, {group for group, _ in second.groups})
    changing = {
        path: _because(_UNSTABLE, (f for f in second.findings if f.fix and f.anchor.path == path))
        for path, _ in second.edits
        if groups[path] > left[path]
    }
    before, after = _refused_counts(plan), _refused_counts(second)
    unknown = {
        path: _because(_UNKNOWN, (f for f in second.findings if f.refuses and f.anchor.path == path))
        for path in texts
        if after[path] > before[path]
    }
    return unknown | changing


def _because(reason: str, findings: Iterable[Finding]) -> str:
    """The reason, with the rules that a second run would have speak, and the lines of the result that they speak of."""
    said = dict.fromkeys(f"{finding.code} in line {finding.anchor.line} of it" for finding in findings)
    return f"{reason} ({', '.join(said)})" if said else reason


def _refused_counts(plan: Plan) -> Counter[str]:
    """By file, how many sites are refused."""
    return Counter(entry.site.anchor.path for entry in plan.ledger if entry.state == "refused")


def _group_counts(plan: Plan, chosen: Set[str | None]) -> Counter[str]:
    """By file, how many of the chosen groups edit it."""
    return Counter(path for group, paths in plan.groups if group in chosen for path in paths)


def _put_back(plan: Plan, failures: Mapping[str, str]) -> tuple[Finding, ...]:
    """A refusal for each group that edits a failing file; for every group, if none does."""
    touching = {group: [path for path in paths if path in failures] for group, paths in plan.groups}
    if any(touching.values()):
        return tuple(failed(paths[0], failures[paths[0]], group) for group, paths in touching.items() if paths)
    elsewhere = "; ".join(f"{path}: {reason}" for path, reason in failures.items())
    return tuple(failed(paths[0], elsewhere, group) for group, paths in plan.groups)


def failed(path: str, reason: str, group: str | None = None) -> Finding:
    """The finding on a file that ampify failed to change."""
    message = f"ampify could not make its change here and put everything that belongs to it back: {reason}"
    hint = "this is a fault of ampify: please report it with the file; --verbose shows the change that was put back"
    return Finding(*INTERNAL_FAILURE, line_anchor(path, 1), message, hint, refuses=True, loop=group)
