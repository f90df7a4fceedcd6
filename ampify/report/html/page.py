"""Puts the page together: its head, its style and script, and the sections in order."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Final

from ampify.model.plan import Report
from ampify.report.excerpt import read_excerpts
from ampify.report.html.element import element
from ampify.report.html.files import files_section
from ampify.report.html.loops import loops_section
from ampify.report.html.overview import (
    filter_form,
    footer,
    headline,
    merging_section,
    overview,
    person_section,
    rules_section,
)
from ampify.report.html.views import make_views
from ampify.report.links import Links

_SECTIONS: Final = (
    ("overview", "Overview"),
    ("person", "For a person"),
    ("loops", "Loops"),
    ("files", "Files"),
    ("rules", "Rules"),
    ("merging", "Before you merge"),
)


def html_report(report: Report, links: Links) -> str:
    """The whole report as one document; nothing in it asks the network, and nothing but our own script runs."""
    views = make_views(report, links)
    sections = "".join(
        (
            overview(report, views),
            person_section(report, views),
            loops_section(report, views, read_excerpts(report)),
            files_section(views),
            rules_section(views),
            merging_section(report),
        )
    )
    style, script, pictures = _asset("style.css"), _asset("script.js"), _asset("pictures.svg")
    head = element(
        "head",
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">',
        element("title", f"{headline(report)} · ampify"),
        element("style", style),
    )
    main = element("main", _with_filter(sections, filter_form(views.notes, report)), id="main", tabindex="-1")
    body = element("body", pictures, _top(sections), main, footer(), element("script", script))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _with_filter(sections: str, form: str) -> str:
    """The filter stands below the overview."""
    end = sections.index("</section>") + len("</section>")
    return sections[:end] + form + sections[end:]


def _top(sections: str) -> str:
    present = [(name, title) for name, title in _SECTIONS if f'id="{name}"' in sections]
    links = (element("li", element("a", title, href=f"#{name}")) for name, title in present)
    return element("a", "Skip to the report", href="#main", class_="skip") + element(
        "header",
        element("p", "ampify", class_="wordmark"),
        element("nav", element("ul", *links), aria_label="Sections"),
        element("button", "Theme: automatic", type="button", id="theme", hidden=True),
        class_="top",
    )


def _policy(style: str, script: str) -> str:
    allowed = {"style-src": _digest(style), "script-src": _digest(script)}
    none = dict.fromkeys(("default-src", "base-uri", "form-action"), "'none'")
    return "; ".join(f"{kind} {source}" for kind, source in {**none, **allowed}.items())


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (files(__package__ or "") / name).read_text(encoding="utf-8")
