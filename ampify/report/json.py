"""The report as JSON: the versioned contract that `docs/json.md` describes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

import ampify
from ampify.model.anchor import Anchor
from ampify.model.evidence import Hop
from ampify.model.finding import Finding
from ampify.model.plan import LoopSummary, Outcome, Report
from ampify.model.site import LedgerEntry
from ampify.report.places import Places, places_of

SCHEMA = 1
FILE_STATUSES = ("changed", "unchanged", "refused", "failed", "skipped")
LOOP_STATES = ("migrated", "right", "refused")
SITE_STATES = ("rewritten", "right", "not_training", "refused")

Json: TypeAlias = "str | int | bool | list[Json] | dict[str, Json] | None"


def json_report(report: Report) -> str:
    """The whole report, as one JSON document that ends in a newline."""
    places = places_of(report.outcomes)
    document: dict[str, Json] = {
        "schema": SCHEMA,
        "version": ampify.__version__,
        "files": [_file(outcome) for outcome in report.outcomes],
        "findings": [_finding(finding, places) for finding in report.findings],
        "loops": [_loop(loop, places) for loop in report.loops],
        "sites": [_site(entry, places) for entry in report.ledger],
        "summary": summary(report),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def rules_json(rules: Iterable[tuple[str, str, str]]) -> str:
    """The rules, each as code, name and summary, as one JSON document that ends in a newline."""
    document: Json = [{"code": code, "name": name, "summary": summary} for code, name, summary in rules]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _file(outcome: Outcome) -> Json:
    return {"path": outcome.path, "status": outcome.status, "reason": outcome.reason}


def _finding(finding: Finding, places: Places) -> Json:
    return {
        "code": finding.code,
        "name": finding.name,
        **_range(finding.anchor, places),
        "message": finding.message,
        "hint": finding.hint,
        "applicability": finding.applicability,
        "refuses": finding.refuses,
        "loop": finding.loop,
        "related": [{**_range(related.anchor, places), "message": related.message} for related in finding.related],
    }


def _range(anchor: Anchor, places: Places) -> dict[str, Json]:
    """Lines and columns as people count them, from 1; the end is the first character that is outside.

    In a notebook lines are those of the cell.
    """
    _, end_line = places.cell(anchor.path, anchor.end_line)
    return {
        **_place((anchor.path, anchor.line), places),
        "column": anchor.column + 1,
        "end_line": end_line,
        "end_column": anchor.end_column + 1,
    }


def _loop(loop: LoopSummary, places: Places) -> Json:
    return {
        "id": loop.id,
        **_place((loop.path, loop.line), places),
        "state": loop.state,
        "models": list(loop.models),
        "optimizers": list(loop.optimizers),
        "backwards": [_place(place, places) for place in loop.backwards],
        "initialize": _place(loop.initialize, places) if loop.initialize else None,
    }


def _place(place: tuple[str, int], places: Places) -> dict[str, Json]:
    path, line = place
    cell, line = places.cell(path, line)
    return {"path": path, "line": line} if cell is None else {"path": path, "cell": cell, "line": line}


def _site(entry: LedgerEntry, places: Places) -> Json:
    anchor = entry.site.anchor
    return {
        "kind": entry.site.kind,
        **_place((anchor.path, anchor.line), places),
        "column": anchor.column + 1,
        "state": entry.state,
        "code": entry.code,
        "loop": entry.site.loop,
        "evidence": [
            _hop(hop, chain.object, number, places)
            for number, chain in enumerate(entry.site.evidence, 1)
            for hop in chain.hops
        ],
    }


def _hop(hop: Hop, name: str, chain: int, places: Places) -> Json:
    place = _place((hop.path, hop.line), places)
    return {"chain": chain, "object": name, **place, "how": hop.how, "lost": hop.lost}


def summary(report: Report) -> Json:
    """What the run came to: numbers of files, findings, loops and sites by state."""
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
