"""Puts the page of a verification together."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Final

import ampify
from ampify.report.html.element import element, icon, sentence, text
from ampify.verify.figures import Figures, Share, figures_of, ratio_of_memory, ratio_of_time
from ampify.verify.page.curves import curves_section
from ampify.verify.running import Run
from ampify.verify.session import Verification
from ampify.verify.verdict import MEANINGS, Judgement

_HEADLINES: Final[dict[Judgement, tuple[str, str, str]]] = {
    "same": ("good", "right", "It trains the same"),
    "within noise": ("good", "right", "It trains alike, within the noise of a seed"),
    "drifts": ("bad", "refused", "It drifts from the original"),
    "fails": ("bad", "refused", "It fails"),
    "not reproducible": ("open", "review", "The original is not reproducible"),
    "cannot verify": ("open", "review", "It cannot be verified"),
}
_RUNS: Final = {
    "original": "the original",
    "again": "the original again",
    "plain": "migrated, at O0",
    "level": "migrated, in reduced precision",
    "finding": "migrated, looking for values that are not finite",
}


def html_verification(verification: Verification) -> str:
    """The whole report as one document."""
    figures = figures_of(verification)
    sections = (
        _overview(verification, figures),
        curves_section(verification),
        _figures_section(figures),
        _precision_section(figures.precision),
        _runs_section(verification),
        _notes_section(verification),
    )
    style = _asset("ampify.report.html", "style.css") + _asset(__package__ or "", "style.css")
    head = element(
        "head",
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style)}">',
        element("title", f"{verification.verdict.judgement} · ampify verify"),
        element("style", style),
    )
    main = element("main", *sections, id="main", tabindex="-1")
    pictures = _asset("ampify.report.html", "pictures.svg")
    body = element("body", pictures, _top(sections), main, _footer())
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{digest}'"


def _asset(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def _top(sections: Iterable[str]) -> str:
    names = {"curves": "Curves", "figures": "Figures", "precision": "Precision", "runs": "Runs", "notes": "Notes"}
    present = "".join(sections)
    links = [
        element("li", element("a", title, href=f"#{key}")) for key, title in names.items() if f'id="{key}"' in present
    ]
    return element("a", "Skip to the report", href="#main", class_="skip") + element(
        "header",
        element("p", "ampify verify", class_="wordmark"),
        element("nav", element("ul", *links), aria_label="Sections"),
        class_="top",
    )


def _footer() -> str:
    return element("footer", element("p", f"ampify {ampify.__version__}"))


def _overview(verification: Verification, figures: Figures) -> str:
    verdict = verification.verdict
    state, picture, headline = _HEADLINES[verdict.judgement]
    places = [element("li", element("code", text(place))) for place in verdict.places]
    rule = (
        sentence(f"Likely rule: {verdict.rule}; `ampify explain {verdict.rule}` tells of it.") if verdict.rule else ""
    )
    shown = list(_headline_figures(verification, figures))
    meaning = MEANINGS[verdict.judgement]
    return element(
        "section",
        element("h1", icon(picture), headline, class_=state),
        element("p", text(f"{meaning[0].upper()}{meaning[1:]}."), class_="lead"),
        element(
            "p", text(f"{verdict.reason[0].upper()}{verdict.reason[1:]}.") if verdict.reason else "", class_="lead"
        ),
        element("ul", *places, class_="places") if places else "",
        element("p", rule, class_="lead") if rule else "",
        element("code", text(verification.command.shown), class_="command"),
        element("dl", *shown, class_="figures") if shown else "",
        id="overview",
        aria_label="Overview",
    )


def _headline_figures(verification: Verification, figures: Figures) -> Iterator[str]:
    distances = verification.compared.distances
    if distances:
        yield _figure("mean distance of the losses", f"{max(d.mean for d in distances):.2%}", _noise(verification))
    time, memory = ratio_of_time(verification), ratio_of_memory(verification)
    if time:
        yield _figure("time of a step", f"{time:.2f} times", "of the original's")
    if memory:
        yield _figure("peak memory", f"{memory:.2f} times", "of the original's")
    total = sum(share.flops for share in figures.precision)
    if total:
        reduced = sum(share.flops * share.reduced for share in figures.precision) / total
        yield _figure("work in reduced precision", f"{reduced:.0%}", f"of {total:.3g} operations a step")


def _noise(verification: Verification) -> str:
    noise = max(verification.compared.noise.means, default=0.0)
    return f"other seeds: {noise:.2%}" if noise else ""


def _figure(name: str, value: str, than: str) -> str:
    return element(
        "div", element("dt", text(name)), element("dd", text(value), element("span", text(than), class_="than"))
    )


def _figures_section(figures: Figures) -> str:
    if not figures.rows:
        return ""
    head = element("tr", element("th", ""), element("th", "original"), element("th", "migrated"))
    rows = (
        element(
            "tr",
            element("th", text(row.name), scope="row"),
            element("td", text(row.before)),
            element("td", text(row.after)),
        )
        for row in figures.rows
    )
    return _section("figures", "Figures", _table(head, rows))


def _precision_section(shares: tuple[Share, ...]) -> str:
    if not shares:
        return ""
    total = sum(share.flops for share in shares) or 1
    head = element(
        "tr",
        element("th", "module"),
        element("th", "share of the work", class_="number"),
        element("th", "in reduced precision", class_="number"),
        element("th", ""),
    )
    rows = (
        element(
            "tr",
            element("th", element("code", text(share.module or "outside of modules")), scope="row"),
            element("td", f"{share.flops / total:.1%}", class_="number"),
            element("td", f"{share.reduced:.0%}", class_="number"),
            element("td", _share_bar(share.flops / total, share.reduced)),
        )
        for share in shares
    )
    lead = (
        "Floating-point work of one step, by the module that did it and the type it ran in. "
        "Matrix products and convolutions count; the rest is small."
    )
    return _section(
        "precision", "Where reduced precision is used", element("p", lead, class_="lead"), _table(head, rows)
    )


def _share_bar(share: float, reduced: float) -> str:
    whole = element("rect", width=f"{100 * share:.2f}", height="10", class_="all")
    part = element("rect", width=f"{100 * share * reduced:.2f}", height="10", class_="reduced")
    return element(
        "svg", whole, part, viewBox="0 0 100 10", preserveAspectRatio="none", class_="share", aria_hidden="true"
    )


def _runs_section(verification: Verification) -> str:
    if not verification.runs:
        return ""
    head = element("tr", *(element("th", name) for name in ("run", "ended", "steps", "seconds")))
    rows = (
        element(
            "tr",
            *(element("td", text(cell)) for cell in (_name(run), _ending(run), str(run.steps), f"{run.seconds:.1f}")),
        )
        for run in verification.runs
    )
    return _section("runs", "Runs", _table(head, rows))


def _name(run: Run) -> str:
    if run.name.startswith("resumed"):
        return "resumed from a checkpoint"
    return _RUNS.get(run.name, f"the original with {run.name}")


def _ending(run: Run) -> str:
    if run.timed_out:
        return "out of time"
    return "well" if run.status == 0 else f"status {run.status}"


def _notes_section(verification: Verification) -> str:
    migration = verification.migration
    blocks = (
        ("What was said", "\n".join(verification.verdict.details)),
        ("Checkpoints", "\n".join(verification.checkpoints)),
        ("Refused", "\n".join(migration.refused) if migration else ""),
        ("Changed", "\n".join(migration.changed) if migration else ""),
        ("Written outside of the copies", "\n".join(verification.outside)),
    )
    parts = [element("h3", title) + element("pre", text(content), tabindex="0") for title, content in blocks if content]
    return _section("notes", "Notes", *parts) if parts else ""


def _section(name: str, title: str, *content: str) -> str:
    return element(
        "section", element("h2", title, id=f"{name}-title"), *content, id=name, aria_labelledby=f"{name}-title"
    )


def _table(head: str, rows: Iterable[str]) -> str:
    table = element("table", element("thead", head), element("tbody", *rows))
    return element("div", element("div", table, class_="scroll", tabindex="0"), class_="panel")
