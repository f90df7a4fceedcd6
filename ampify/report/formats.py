"""The formats of a report by their names, and by the endings of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from ampify.model.plan import Report
from ampify.report.links import Links
from ampify.report.places import places_of

Writer: TypeAlias = Callable[[Report, Links], str]

_ENDINGS: Final[Mapping[str, str]] = {".md": "markdown", ".html": "html", ".json": "json", ".sarif": "sarif"}
_LINKING: Final = frozenset({"markdown", "html"})


def format_of(path: Path) -> str:
    """The format that a file's ending asks for."""
    return _ENDINGS[path.suffix]


def links_wanted(form: str) -> bool:
    """Whether a format shows links to lines."""
    return form in _LINKING


def rendered(report: Report, form: str, links: Links) -> bytes:
    """The report in a format other than `text`, which goes to standard error and knows of terminals.

    A file name that is not UTF-8 holds lone surrogates, which become what JSON writes for them.
    """
    links = replace(links, places=places_of(report.outcomes))
    return _writer(form)(report, links).encode("utf-8", "backslashreplace")


def _writer(form: str) -> Writer:
    # Imported when asked for: most runs print text, and start the sooner for it.
    if form == "html":
        from ampify.report.html import html_report

        return html_report
    if form == "markdown":
        from ampify.report.markdown import markdown_report

        return markdown_report
    if form == "sarif":
        from ampify.report.sarif import sarif_report

        return lambda report, _: sarif_report(report)
    if form == "github":
        from ampify.report.github import github_report

        return lambda report, _: github_report(report)
    from ampify.report.json import json_report

    return lambda report, _: json_report(report)
