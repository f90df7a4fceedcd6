"""The report as JSON: the versioned contract that `docs/json.md` describes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

import ampify
from ampify.model.anchor import Anchor
from ampify.model.finding import Finding
from ampify.model.plan import LoopSummary, Outcome, Report
from ampify.model.site import LedgerEntry

SCHEMA = 1
FILE_STATUSES = ("changed", "unchanged", "refused", "failed", "skipped")
LOOP_STATES = ("migrated", "right", "refused")
SITE_STATES = ("rewritten", "right", "not_training", "refused")

Json: TypeAlias = "str | int | bool | list[Json] | dict[str, Json] | None"


def json_report(report: Report) -> str:
    """The whole report, as one JSON document that ends in a newline."""
    document: dict[str, Json] = {
        "schema": SCHEMA,
        "version": ampify.__version__,
        "files": [_file(outcome) for outcome in report.outcomes],
        "findings": [_finding(finding) for finding in report.findings],
        "loops": [_loop(loop) for loop in report.loops],
        "sites": [_site(entry) for entry in report.ledger],
        "summary": _summary(report),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def rules_json(rules: Iterable[tuple[str, str, str]]) -> str:
    """The rules, each as code, name and summary, as one JSON document that ends in a newline."""
    document: Json = [{"code": code, "name": name, "summary": summary} for code, name, summary in rules]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _file(outcome: Outcome) -> Json:
    return {"path": outcome.path, "status": outcome.status, "reason": outcome.reason}


def _finding(finding: Finding) -> Json:
    return {
        "code": finding.code,
        "name": finding.name,
        **_range(finding.anchor),
        "message": finding.message,
        "hint": finding.hint,
        "applicability": finding.applicability,
        "refuses": finding.refuses,
        "loop": finding.loop,
        "related": [{**_range(related.anchor), "message": related.message} for related in finding.related],
    }


def _range(anchor: Anchor) -> dict[str, Json]:
    """Lines and columns as people count them, from 1; the end is the first character that is outside."""
    return {
        "path": anchor.path,
        "line": anchor.line,
        "column": anchor.column + 1,
        "end_line": anchor.end_line,
        "end_column": anchor.end_column + 1,
    }


def _loop(loop: LoopSummary) -> Json:
    return {
        "id": loop.id,
        "path": loop.path,
        "line": loop.line,
        "state": loop.state,
        "models": list(loop.models),
        "optimizers": list(loop.optimizers),
        "backwards": [_place(place) for place in loop.backwards],
        "initialize": _place(loop.initialize) if loop.initialize else None,
    }


def _place(place: tuple[str, int]) -> Json:
    path, line = place
    return {"path": path, "line": line}


def _site(entry: LedgerEntry) -> Json:
    anchor = entry.site.anchor
    return {
        "kind": entry.site.kind,
        "path": anchor.path,
        "line": anchor.line,
        "column": anchor.column + 1,
        "state": entry.state,
        "code": entry.code,
        "loop": entry.site.loop,
    }


def _summary(report: Report) -> Json:
    return {
        "wrote": report.wrote,
        "files": _counts((outcome.status for outcome in report.outcomes), FILE_STATUSES),
        "findings": len(report.findings),
        "refusals": sum(finding.refuses for finding in report.findings),
        "loops": _counts((loop.state for loop in report.loops), LOOP_STATES),
        "sites": _counts((entry.state for entry in report.ledger), SITE_STATES),
    }


def _counts(states: Iterable[str], known: tuple[str, ...]) -> Json:
    counter = Counter(states)
    return {state: counter[state] for state in known}
