"""The findings as SARIF 2.1.0, the interchange format of code scanners (OASIS, Static Analysis Results Interchange
Format 2.1.0 with errata 01)."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

import ampify
from ampify.model.anchor import Anchor
from ampify.model.finding import Finding, Related
from ampify.model.plan import Report
from ampify.report.json import Json
from ampify.report.places import Places, places_of
from ampify.report.standing import Standing, ranked, told_once
from ampify.rules import find_rule
from ampify.rules.documentation import Documentation, read_documentation

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
# What relative addresses are relative to; who reads the file knows where his checkout is.
ROOT: Final = "%SRCROOT%"
_LEVELS: Final[Mapping[Standing, str]] = {
    "failed": "error",
    "refused": "error",
    "review": "warning",
    "withheld": "note",
    "applied": "note",
}


def sarif_report(report: Report) -> str:
    """The findings, the worst first, with the rules they come from, as one document that ends in a newline."""
    findings = [(standing, f) for standing, group in ranked(report).items() for f in told_once(group)]
    rules = sorted({finding.code: finding.name for _, finding in findings}.items())
    failed = any(finding.code.startswith("AMP9") for finding in report.findings)
    run: Json = {
        "tool": {"driver": _driver(rules)},
        "invocations": [{"executionSuccessful": not failed}],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The folder that ampify was run in."}}},
        "results": [*_results(findings, [code for code, _ in rules], report)],
    }
    document: Json = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _driver(rules: Iterable[tuple[str, str]]) -> dict[str, Json]:
    return {
        "name": "ampify",
        "semanticVersion": ampify.__version__,
        "version": ampify.__version__,
        "rules": [_rule(code, name) for code, name in rules],
    }


def _rule(code: str, name: str) -> Json:
    described: dict[str, Json] = {"id": code, "name": name}
    rule = find_rule(code)
    if rule is None:
        return described
    documentation = read_documentation(rule.documentation)
    full = documentation.section("Why it matters") or documentation.summary
    return {
        **described,
        "shortDescription": {"text": _plain(documentation.summary)},
        "fullDescription": {"text": _plain(full)},
        "help": {"text": _help(documentation), "markdown": _help(documentation)},
        "properties": {"tags": ["pytorch", "mixed-precision"]},
    }


def _help(documentation: Documentation) -> str:
    told = [heading for heading in ("What it does", "Why it matters", "Hint", "Fix safety") if heading]
    parts = [(heading, documentation.section(heading)) for heading in told]
    return "\n\n".join(f"**{heading}.** {_plain(text)}" for heading, text in parts if text)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _results(findings: Iterable[tuple[Standing, Finding]], codes: list[str], report: Report) -> Iterator[Json]:
    seen: Counter[str] = Counter()
    sources, places = _sources(report), places_of(report.outcomes)
    for standing, finding in findings:
        print_ = _fingerprint(finding, sources)
        seen[print_] += 1
        yield {
            "ruleId": finding.code,
            "ruleIndex": codes.index(finding.code),
            "level": _LEVELS[standing],
            "message": {"text": _message(finding, places)},
            "locations": [{"physicalLocation": _location(finding.anchor, places)}],
            "relatedLocations": [_related(number, place, places) for number, place in enumerate(finding.related, 1)],
            "partialFingerprints": {"ampify/v1": f"{print_}:{seen[print_]}"},
            "properties": {"standing": standing, "applicability": finding.applicability, "loop": finding.loop},
        }


def _message(finding: Finding, places: Places) -> str:
    message = places.prefix(finding.anchor.path, finding.anchor.line) + finding.message
    return f"{message}\nhint: {finding.hint}" if finding.hint else message


def _related(number: int, related: Related, places: Places) -> Json:
    return {
        "id": number,
        "message": {"text": places.prefix(related.anchor.path, related.anchor.line) + related.message},
        "physicalLocation": _location(related.anchor, places),
    }


def _location(anchor: Anchor, places: Places) -> dict[str, Json]:
    # A notebook is JSON to a scanner, so that lines of its cells would mean nothing: they are in the message.
    if anchor.path in places.notebooks:
        return {"artifactLocation": _artifact(anchor.path)}
    region: dict[str, Json] = {"startLine": anchor.line}
    if anchor.end > anchor.start:
        region |= {"startColumn": anchor.column + 1, "endLine": anchor.end_line, "endColumn": anchor.end_column + 1}
    return {"artifactLocation": _artifact(anchor.path), "region": region}


def _artifact(path: str) -> Json:
    if path.startswith("/"):
        return {"uri": Path(path).as_uri()}
    # SARIF wants neither `.` nor empty parts; a name that is no text goes in as the bytes it has on disk.
    return {"uri": quote(os.fsencode(PurePosixPath(path).as_posix())), "uriBaseId": ROOT}


def _sources(report: Report) -> dict[str, list[str]]:
    return {o.path: o.before.text.split("\n") for o in report.outcomes if o.before is not None}


def _fingerprint(finding: Finding, sources: Mapping[str, list[str]]) -> str:
    """The same for the same finding after lines were moved: its rule, its file and the text of its line."""
    lines = sources.get(finding.anchor.path, [])
    line = lines[finding.anchor.line - 1].strip() if finding.anchor.line <= len(lines) else ""
    content = "\0".join((finding.code, finding.anchor.path, line))
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:16]
