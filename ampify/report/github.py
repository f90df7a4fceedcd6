"""The findings as GitHub's workflow commands, which it shows as annotations beside the lines of a pull request.

The commands and their escapes: GitHub Docs, "Workflow commands for GitHub Actions".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ampify.model.anchor import Anchor
from ampify.model.finding import Finding
from ampify.model.plan import Report
from ampify.report.places import Places, places_of
from ampify.report.standing import Standing, ranked, told_once

# GitHub has three kinds. It shows ten of each a step, so that the worst come first.
_COMMANDS: Final[Mapping[Standing, str]] = {
    "failed": "error",
    "refused": "error",
    "review": "warning",
    "withheld": "notice",
    "applied": "notice",
}
_DATA: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def github_report(report: Report) -> str:
    """A line a finding, the worst first; empty if there is none."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    places = places_of(report.outcomes)
    for standing, findings in ranked(report).items():
        for finding in told_once(findings):
            yield _command(_COMMANDS[standing], finding, places)


def _command(command: str, finding: Finding, places: Places) -> str:
    properties = {**_place(finding.anchor, places), "title": f"{finding.code} {finding.name}"}
    told = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
    return f"::{command} {told}::{_message(finding, places).translate(_DATA)}"


def _place(anchor: Anchor, places: Places) -> dict[str, str]:
    """Where it is, counted from 1; GitHub takes columns only where the range is within one line, both inclusive.

    A notebook is JSON to GitHub, so that lines of its cells would mean nothing.
    """
    if anchor.path in places.notebooks:
        return {"file": anchor.path}
    place = {"file": anchor.path, "line": str(anchor.line), "endLine": str(anchor.end_line)}
    if anchor.line == anchor.end_line and anchor.end_column > anchor.column:
        place |= {"col": str(anchor.column + 1), "endColumn": str(anchor.end_column)}
    return place


def _message(finding: Finding, places: Places) -> str:
    related = [f"{places.named(r.anchor.path, r.anchor.line)}: {r.message}" for r in finding.related]
    message = places.prefix(finding.anchor.path, finding.anchor.line) + finding.message
    hint = [f"hint: {finding.hint}"] if finding.hint else []
    return "\n".join([message, *related, *hint])
