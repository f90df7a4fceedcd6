"""The findings as GitHub's workflow commands, which it shows as annotations beside the lines of a pull request.

The commands and their escapes: GitHub Docs, "Workflow commands for GitHub Actions".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ampify.model.anchor import Anchor
from ampify.model.finding import Finding
from ampify.model.plan import Report
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
    for standing, findings in ranked(report).items():
        for finding in told_once(findings):
            yield _command(_COMMANDS[standing], finding)


def _command(command: str, finding: Finding) -> str:
    properties = {**_place(finding.anchor), "title": f"{finding.code} {finding.name}"}
    told = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
    return f"::{command} {told}::{_message(finding).translate(_DATA)}"


def _place(anchor: Anchor) -> dict[str, str]:
    """Where it is, counted from 1; GitHub takes columns only where the range is within one line, both inclusive."""
    place = {"file": anchor.path, "line": str(anchor.line), "endLine": str(anchor.end_line)}
    if anchor.line == anchor.end_line and anchor.end_column > anchor.column:
        place |= {"col": str(anchor.column + 1), "endColumn": str(anchor.end_column)}
    return place


def _message(finding: Finding) -> str:
    related = [f"{place.anchor.path}:{place.anchor.line}: {place.message}" for place in finding.related]
    hint = [f"hint: {finding.hint}"] if finding.hint else []
    return "\n".join([finding.message, *related, *hint])
