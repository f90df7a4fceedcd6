"""`index.html`: one table of all repositories, each with the way to its reports."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from ampify.bulk.job import LOG, REPORTS
from ampify.bulk.sources import Source
from ampify.bulk.state import State
from ampify.bulk.summary import Summary, line_of
from ampify.report.html.element import element, text

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 1rem/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1.5rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.7rem 0.3rem 0; border-bottom: 1px solid #8886; }
td { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; }
tr.failed td:first-child { border-left: 4px solid #c33; padding-left: 0.5rem; }
tr.migrated td:first-child { border-left: 4px solid #393; padding-left: 0.5rem; }
"""
_COLUMNS: Final = ("Repository", "What became of it", "Refused", "Reports", "Commit")


def page(summary: Summary) -> str:
    """The page, one document that asks no network and runs no script."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>ampify: many repositories ({len(summary.rows)})</title>"
        f"<style>{_STYLE}</style>"
    )
    body = element("main", element("h1", "Many repositories"), _totals(summary), _refusals(summary), _table(summary))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _totals(summary: Summary) -> str:
    rows = {"Repositories": summary.statuses, "Loops": summary.total("loops"), "Places": summary.total("sites")}
    lines = [
        element(
            "li", element("strong", name), ": ", ", ".join(f"{n:,} {key.replace('_', ' ')}" for key, n in row.items())
        )
        for name, row in rows.items()
        if row
    ]
    return element("ul", *lines)


def _refusals(summary: Summary) -> str:
    if not summary.refusals:
        return ""
    rows = [
        element("tr", element("td", f"{r.code} {r.name}"), _number(r.places), _number(r.repositories))
        for r in summary.refusals
    ]
    head = element("tr", *_heads(("Rule",)), *_heads(("Places", "Repositories"), class_="number"))
    return element("h2", "The commonest refusals") + _scrolling(element("table", head, *rows), "Refusals")


def _table(summary: Summary) -> str:
    rows = [_row(source, state) for source, state in summary.rows]
    head = element("tr", *_heads(_COLUMNS))
    return element("h2", "Repositories") + _scrolling(element("table", head, *rows), "Repositories")


def _row(source: Source, state: State | None) -> str:
    if state is None:
        return element("tr", element("td", text(source.shown)), element("td", "not reached"), *[element("td")] * 3)
    names = REPORTS if state.status != "failed" else (LOG,) if state.internal else ()
    links = " ".join(element("a", text(name), href=f"{source.name}/{name}") for name in names)
    return element(
        "tr",
        element("td", text(source.shown)),
        element("td", text(line_of(state))),
        element("td", text(", ".join(f"{code} {count}" for code, (_, count) in state.refusals.items()))),
        element("td", links),
        element("td", element("code", state.commit[:12])),
        class_=state.status,
    )


def _heads(names: tuple[str, ...], class_: str | None = None) -> list[str]:
    return [element("th", name, scope="col", class_=class_) for name in names]


def _number(value: int) -> str:
    return element("td", f"{value:,}", class_="number")


def _scrolling(table: str, label: str) -> str:
    # A region that scrolls has to be reachable without a mouse.
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)
