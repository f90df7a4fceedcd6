"""Puts the sections of a run's page in order."""

from __future__ import annotations

from typing import Final

from ampify.model.plan import Report
from ampify.report.excerpt import read_excerpts
from ampify.report.html.files import files_section
from ampify.report.html.filter import filter_form
from ampify.report.html.frame import framed
from ampify.report.html.loops import loops_section
from ampify.report.html.overview import headline, merging_section, overview, person_section, rules_section
from ampify.report.html.views import Views, make_views
from ampify.report.links import Links

_SECTIONS: Final = (
    ("overview", "Overview"),
    ("person", "For a person"),
    ("loops", "Loops"),
    ("files", "Files"),
    ("rules", "Rules"),
    ("merging", "Before you merge"),
)
# What `data-state` may be: picture and name.
_STATES: Final = {
    "refused": ("refused", "Refused"),
    "review": ("review", "To look at"),
    "rewritten": ("rewritten", "Rewritten"),
    "right": ("right", "Right already"),
    "not_training": ("not_training", "Not training"),
}


def html_report(report: Report, links: Links) -> str:
    """The whole report as one document."""
    views = make_views(report, links)
    sections = "".join(
        (
            overview(report, views),
            filter_form(_STATES, _codes(report, views), "places"),
            person_section(report, views),
            loops_section(report, views, read_excerpts(report)),
            files_section(views),
            rules_section(views),
            merging_section(report),
        )
    )
    present = [(name, title) for name, title in _SECTIONS if f'id="{name}"' in sections]
    return framed(f"{headline(report)} · ampify", present, sections)


def _codes(report: Report, views: Views) -> list[str]:
    codes = {note.finding.code for note in views.notes} | {entry.code for entry in report.ledger if entry.code}
    return sorted(codes)
