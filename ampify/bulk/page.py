"""`index.html`: what became of all repositories, each with the way to its reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from typing import Final, Literal, TypeAlias

from ampify.bulk.job import LOG, REPORTS
from ampify.bulk.sources import Source, without_password
from ampify.bulk.state import State
from ampify.bulk.summary import Summary
from ampify.report.html.element import element, text
from ampify.report.html.figures import bar, figures
from ampify.report.html.filter import filter_form
from ampify.report.html.frame import framed
from ampify.report.html.notes import badge
from ampify.report.wording import counted

Standing: TypeAlias = Literal["failed", "refused", "partly", "migrated", "other", "right", "nothing", "not_reached"]

# The picture and the name of what became of a repository, the worst first.
_STANDINGS: Final[Mapping[Standing, tuple[str, str]]] = {
    "failed": ("refused", "Failed"),
    "refused": ("refused", "Not migrated"),
    "partly": ("review", "Partly migrated"),
    "migrated": ("rewritten", "Migrated"),
    "other": ("review", "Other changes"),
    "right": ("right", "Right already"),
    "nothing": ("not_training", "No loop of its own"),
    "not_reached": ("not_training", "Not reached"),
}
_LOOPS: Final = {"rewritten": "migrated", "right": "right", "refused": "refused"}
_COLUMNS: Final = ("Repository", "What became of it", "Training loops", "Refused places by rule", "Reports", "Commit")
_SHOWN: Final[Mapping[str, str]] = {"out.html": "page", "pr.md": "pull request", "report.json": "data", LOG: "log"}


def page(summary: Summary) -> str:
    """The page, one document that asks no network."""
    standings = Counter(_standing(state) for _, state in summary.rows)
    states: dict[str, tuple[str, str]] = {name: shown for name, shown in _STANDINGS.items() if standings[name]}
    codes = sorted({code for state in summary.states for code in state.refusals})
    content = _overview(summary) + _refusals(summary) + filter_form(states, codes, "repositories") + _table(summary)
    present = [("overview", "Overview"), ("refusals", "Refusals"), ("repositories", "Repositories")]
    sections = [(name, title) for name, title in present if f'id="{name}"' in content]
    title = f"ampify: many repositories ({len(summary.rows)})"
    return framed(title, sections, content, (files(__package__ or "") / "page.css").read_text(encoding="utf-8"))


def _standing(state: State | None) -> Standing:
    if state is None:
        return "not_reached"
    if state.status == "failed":
        return "failed"
    loops = _loops_of(state)
    if state.status == "migrated":
        return "other" if not loops.get("migrated") else "partly" if loops.get("refused") else "migrated"
    return "refused" if loops.get("refused") else "right" if loops.get("right") else "nothing"


def _loops_of(state: State) -> Mapping[str, int]:
    loops: Mapping[str, int] = state.counts.get("loops", {})
    return loops


def _overview(summary: Summary) -> str:
    loops, sites = summary.total("loops"), summary.total("sites")
    total = sum(loops.values())
    numbers = (
        ("repositories", len(summary.rows), "#repositories"),
        ("training loops", total, "#repositories"),
        ("sites accounted for", sum(sites.values()), "#repositories"),
        ("refused places", sum(state.refused for state in summary.states), "#refusals"),
    )
    names = {"migrated": "changed", "not_reached": "not reached"}
    told = ", ".join(f"{number:,} {names.get(name, name)}" for name, number in summary.statuses.items() if number)
    return element(
        "section",
        element("h1", f"{loops.get('migrated', 0):,} of {counted(total, 'training loop')} migrated"),
        element("p", f"Of the repositories, {told}." if told else "No repository was listed.", class_="lead"),
        figures(numbers),
        bar(
            {state: (loops.get(name, 0), f"loops {name}") for state, name in _LOOPS.items()}, "Training loops by state"
        ),
        id="overview",
        aria_label="Overview",
    )


def _refusals(summary: Summary) -> str:
    if not summary.refusals:
        return ""
    rows = [
        element(
            "tr",
            element("td", element("b", text(r.code)), " ", element("span", text(r.name), class_="rule")),
            element("td", f"{r.places:,}", class_="amount"),
            element("td", f"{r.repositories:,}", class_="amount"),
        )
        for r in summary.refusals
    ]
    heads = [element("th", "Rule", scope="col")]
    heads += [element("th", name, scope="col", class_="amount") for name in ("Places", "Repositories")]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    head = element("h2", "The commonest refusals")
    return element(
        "section", head, _scrolling(table, "Refusals"), id="refusals", class_="refusals", aria_label="Refusals"
    )


def _table(summary: Summary) -> str:
    heads = (element("th", name, scope="col") for name in _COLUMNS)
    rows = (_row(source, state) for source, state in summary.rows)
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="repositories")
    head = element("h2", "Repositories ", element("span", str(len(summary.rows)), class_="count"))
    return element("section", head, table, id="repositories", aria_label="Repositories")


def _row(source: Source, state: State | None) -> str:
    standing = _standing(state)
    loops = ", ".join(f"{n:,} {name}" for name, n in _loops_of(state).items() if n) if state else ""
    refusals = state.refusals if state else {}
    codes = (
        element("span", text(code), f" × {places:,}", title=name)  # noqa: RUF001
        for code, (name, places) in refusals.items()
    )
    reason = element("span", text(state.reason), class_="detail") if state and state.reason else ""
    return element(
        "tr",
        element("td", _name(source, state)),
        element("td", badge(*_STANDINGS[standing]), reason),
        element("td", text(loops), data_label="Loops"),
        element("td", element("span", *codes, class_="codes") if refusals else "", data_label="Refused"),
        element("td", *_links(source, state), class_="reports"),
        element("td", element("code", text(state.commit[:12])) if state and state.commit else ""),
        data_state=standing,
        data_code=" ".join(refusals),
    )


def _name(source: Source, state: State | None) -> str:
    """The last part of the address, which tells it from the others, and above it the rest."""
    folder, _, last = without_password(source.location).rstrip("/").rpartition("/")
    last += f"@{source.ref}" if source.ref else ""
    where = element("span", text(folder), class_="where") if folder else ""
    reported = state is not None and state.status != "failed"
    name = element("a", text(last), href=f"{source.name}/out.html") if reported else text(last)
    return where + element("span", name, class_="name")


def _links(source: Source, state: State | None) -> list[str]:
    if state is None:
        return []
    names = REPORTS if state.status != "failed" else (LOG,) if state.internal else ()
    return [element("a", text(_SHOWN.get(name, name)), href=f"{source.name}/{name}") for name in names]


def _scrolling(table: str, label: str) -> str:
    # A region that scrolls has to be reachable without a mouse.
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)
