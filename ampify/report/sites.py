"""The ledger as text: a line a site, with its state and the evidence that ties it to what it acts on."""

from __future__ import annotations

from ampify.model.evidence import Chain
from ampify.model.plan import Report
from ampify.model.site import LedgerEntry, SiteState
from ampify.report.colour import Colour, paint
from ampify.report.places import Places, places_of

_COLOURS: dict[SiteState, Colour] = {"rewritten": "green", "right": "green", "not_training": "dim", "refused": "red"}


def sites_report(report: Report, *, colour: bool = False) -> str:
    """Every site in the order of the text, as place, kind, state, code, loop and chains; "-" stands for none."""
    places = places_of(report.outcomes)
    return "".join(f"{_site(entry, places, colour)}\n" for entry in report.ledger)


def _site(entry: LedgerEntry, places: Places, colour: bool) -> str:
    site, anchor = entry.site, entry.site.anchor
    place = paint(f"{places.named(anchor.path, anchor.line)}:{anchor.column + 1}", "bold", enabled=colour)
    state = paint(entry.state, _COLOURS[entry.state], enabled=colour)
    chains = "; ".join(_chain(chain, places) for chain in site.evidence)
    return f"{place} {site.kind} {state} {entry.code or '-'} {site.loop or '-'} {chains or '-'}"


def _chain(chain: Chain, places: Places) -> str:
    """`optimizer ← engine.py:12 parameter optimizer ← train.py:40 argument ← solver.py:7 AdamW(...)`."""
    parts = [chain.object] if chain.object else []
    before: tuple[str, int] | None = None
    for hop in chain.hops:
        place = (hop.path, hop.line)
        named = "" if place == before else f"{places.named(*place)} "
        parts.append(f"lost at {places.named(*place)}: {hop.how}" if hop.lost else f"{named}{hop.how}")
        before = place
    return " ← ".join(parts)
