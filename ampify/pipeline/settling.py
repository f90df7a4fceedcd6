"""Brings plan and rewriting to agree: what cannot be rewritten, or would not stay as it is, is put back whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass

from ampify.index import build_project
from ampify.model.anchor import line_anchor
from ampify.model.finding import Finding
from ampify.model.plan import Plan
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.model.source import SourceFile
from ampify.pipeline.rewriting import renewed, rewrite_files
from ampify.plan import make_plan
from ampify.rules import run_rules

INTERNAL_FAILURE = ("AMP901", "internal-failure")

_UNSTABLE = "a second run would change the result again"


@dataclass(frozen=True, slots=True)
class Settled:
    """A plan of which every edit could be made, and the new texts by path."""

    plan: Plan
    texts: Mapping[str, str]


def settle(project: Project, sources: Mapping[str, SourceFile], settings: Settings) -> Settled:
    """The largest plan whose every edit can be made and whose result a second run would leave alone."""
    findings = run_rules(project, settings)
    put_back: tuple[Finding, ...] = ()
    left: Counter[str] = Counter()
    while True:
        plan = make_plan(project, findings, settings, put_back)
        texts, failures = _rewrite(plan, sources, settings)
        failures = failures or _unstable(texts, sources, settings, left)
        if not failures:
            return Settled(plan, texts)
        refusals = _put_back(plan, failures)
        left += _group_counts(plan, {refusal.loop for refusal in refusals})
        put_back += refusals


def _rewrite(
    plan: Plan, sources: Mapping[str, SourceFile], settings: Settings
) -> tuple[dict[str, str], dict[str, str]]:
    """New texts, and reasons for those that could not be made, by path."""
    results = rewrite_files([(sources[path], edits) for path, edits in plan.edits], settings.jobs)
    texts = {result.path: result.text for result in results if result.text is not None}
    return texts, {result.path: result.failure for result in results if result.text is None}


def _unstable(
    texts: Mapping[str, str], sources: Mapping[str, SourceFile], settings: Settings, left: Counter[str]
) -> dict[str, str]:
    """The files that a second run would change, beyond the groups `left` alone there, which it would try again."""
    if not texts:
        return {}
    again = [renewed(source, texts.get(path, source.text)) for path, source in sources.items()]
    project = build_project(again, settings)
    plan = make_plan(project, run_rules(project, settings), settings)
    groups = _group_counts(plan, {group for group, _ in plan.groups})
    return {path: _UNSTABLE for path, _ in plan.edits if groups[path] > left[path]}


def _group_counts(plan: Plan, chosen: Set[str | None]) -> Counter[str]:
    """By file, how many of the chosen groups edit it."""
    return Counter(path for group, paths in plan.groups if group in chosen for path in paths)


def _put_back(plan: Plan, failures: Mapping[str, str]) -> tuple[Finding, ...]:
    """A refusal for each group that edits a failing file; for every group, if none does."""
    first = next(iter(failures))
    touching = {group: [path for path in paths if path in failures] for group, paths in plan.groups}
    guilty = {group: paths[0] for group, paths in touching.items() if paths} or dict.fromkeys(touching, first)
    return tuple(failed(path, failures[path], group) for group, path in guilty.items())


def failed(path: str, reason: str, group: str | None = None) -> Finding:
    """The finding on a file that ampify failed to change."""
    message = f"ampify could not make its change here and put everything that belongs to it back: {reason}"
    hint = "this is a fault of ampify: please report it with the file; --verbose shows more"
    return Finding(*INTERNAL_FAILURE, line_anchor(path, 1), message, hint, refuses=True, loop=group)
