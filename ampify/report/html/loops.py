"""The training loops: each drawn, with its sites in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ampify.model.plan import LoopSummary, Report
from ampify.model.site import LedgerEntry
from ampify.report.excerpt import Excerpts
from ampify.report.fate import Fate, fate_in_words, fates_of
from ampify.report.html.drawing import drawings
from ampify.report.html.element import element, sentence, text
from ampify.report.html.flow import flow_of
from ampify.report.html.notes import badge, place_link
from ampify.report.html.views import Views
from ampify.report.markup import shortened
from ampify.report.wording import KINDS, in_words

# The mark of each, those that need a look first.
_FATES: Final[Mapping[Fate, str]] = {
    "refused": "refused",
    "migrated": "rewritten",
    "mended": "rewritten",
    "right": "right",
}
SITE_STATES: Final[Mapping[str, str]] = {
    "rewritten": "rewritten",
    "right": "right already",
    "refused": "refused",
    "not_training": "not training",
}


def loops_section(report: Report, views: Views, excerpts: Excerpts) -> str:
    """All training loops, those that are refused first, and the sites that are in none."""
    sites: dict[str | None, list[LedgerEntry]] = {}
    for entry in report.ledger:
        sites.setdefault(entry.site.loop, []).append(entry)
    fates, order = fates_of(report), list(_FATES)
    loops = sorted(report.loops, key=lambda loop: order.index(fates[loop.id]))
    cards = [_loop(loop, fates[loop.id], sites.get(loop.id, []), report, views, excerpts) for loop in loops]
    if sites.get(None):
        cards.append(_loose(sites[None], views, excerpts))
    if not cards:
        return ""
    head = element("h2", "Training loops ", element("span", str(len(loops)), class_="count"))
    return element("section", head, *cards, id="loops", aria_label="Training loops", data_group=True)


def _loop(
    loop: LoopSummary, fate: Fate, entries: Sequence[LedgerEntry], report: Report, views: Views, excerpts: Excerpts
) -> str:
    state, words = _FATES[fate], fate_in_words(fate, wrote=report.wrote)
    models = in_words(f"`{name}`" for name in loop.models) or "its model"
    optimizers = in_words(f"`{name}`" for name in loop.optimizers) or "its optimizer"
    where = place_link(loop.path, loop.line, views)
    flow = (
        element("figure", drawings(flow_of(loop, entries, views.places), views.target), class_="drawing")
        if entries
        else ""
    )
    return element(
        "article",
        element("header", element("h3", where), badge(state, words), class_="title"),
        element("p", "Trains ", sentence(models), " with ", sentence(optimizers), ".", class_="trains"),
        flow,
        _table(entries, loop.path, views, excerpts, f"Sites of the loop at {views.places.named(loop.path, loop.line)}"),
        class_=f"loop {state}",
        data_group=True,
        data_state=state,
    )


def _loose(entries: Sequence[LedgerEntry], views: Views, excerpts: Excerpts) -> str:
    return element(
        "article",
        element("header", element("h3", "In no training loop"), class_="title"),
        _table(entries, "", views, excerpts, "Sites in no training loop"),
        class_="loop",
        data_group=True,
    )


def _table(entries: Sequence[LedgerEntry], path: str, views: Views, excerpts: Excerpts, caption: str) -> str:
    heads = (element("th", title, scope="col") for title in ("Line", "Site", "State", "Rule", "Code"))
    table = element(
        "table",
        element("caption", text(caption), class_="spoken"),
        element("thead", element("tr", *heads)),
        element("tbody", *(_row(entry, path, views, excerpts) for entry in entries)),
    )
    # What scrolls has to be reached without a mouse.
    return element("div", table, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _row(entry: LedgerEntry, path: str, views: Views, excerpts: Excerpts) -> str:
    anchor = entry.site.anchor
    label = views.places.within(anchor.path, anchor.line) if anchor.path == path else ""
    code = shortened(excerpts.code(anchor), 120)
    cells = (
        element("td", place_link(anchor.path, anchor.line, views, label), class_="at"),
        element("td", KINDS[entry.site.kind]),
        element("td", badge(entry.state, SITE_STATES[entry.state])),
        element("td", text(entry.code)),
        element("td", element("code", text(code)) if code else ""),
    )
    return element("tr", *cells, data_state=entry.state, data_code=entry.code)
