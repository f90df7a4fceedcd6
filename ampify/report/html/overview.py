"""The top of the page, what is left to a person, the rules that had something to say, and what to do before merging."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ampify.model.plan import LoopSummary, Report
from ampify.report.advice import risks, trials, undoing, verifying
from ampify.report.fate import Fate, fates_of
from ampify.report.html.element import element, sentence, text
from ampify.report.html.figures import bar, figures
from ampify.report.html.loops import SITE_STATES
from ampify.report.html.notes import note_card, place_link
from ampify.report.html.views import Note, Views
from ampify.report.standing import Standing, left_alone
from ampify.report.wording import counted
from ampify.rules import find_rule
from ampify.rules.documentation import read_documentation

# As many notes of one rule are shown at once; twice as many are not worth hiding any.
_EACH: Final = 6
_PERSON: Final = ("failed", "refused", "review")


def headline(report: Report) -> str:
    """The run in a few words."""
    fate_of = fates_of(report)
    fates = Counter(fate_of[loop.id] for loop in report.loops)
    total = len(report.loops)
    if not total:
        return "No training loop found"
    if fates["right"] == total:
        return f"{counted(total, 'training loop')} right already"
    done: Fate = "mended" if fates["mended"] and not fates["migrated"] else "migrated"
    verb = done if report.wrote or not fates[done] else f"can be {done}"
    mended = f", {fates['mended']:,} mended" if done == "migrated" and fates["mended"] else ""
    return f"{fates[done]:,} of {counted(total, 'training loop')} {verb}{mended}"


def overview(report: Report, views: Views) -> str:
    """The headline and the figures."""
    changed = sum(outcome.status == "changed" for outcome in report.outcomes)
    verb = "changed" if report.wrote else "would change"
    said = "" if report.wrote else " Nothing was written."
    person = _left_to_a_person(report, views)
    numbers = (
        ("training loops", len(report.loops), "#loops"),
        ("sites accounted for", len(report.ledger), "#loops"),
        (f"file{'' if changed == 1 else 's'} {verb}", changed, "#files"),
        ("for a person", person, "#person"),
    )
    return element(
        "section",
        element("h1", headline(report)),
        element("p", f"Every site that was found ends in one of four states.{said}", class_="lead"),
        figures(numbers),
        _sites(report),
        id="overview",
        aria_label="Overview",
    )


def _sites(report: Report) -> str:
    """The sites by state."""
    states = Counter(entry.state for entry in report.ledger)
    return bar({state: (states[state], name) for state, name in SITE_STATES.items()}, "Sites by state")  # type: ignore[index]


def person_section(report: Report, views: Views) -> str:
    """What is left to a person, the worst first."""
    notes = [note for note in views.notes if note.standing in _PERSON]
    silenced = left_alone(report)
    if not notes and not silenced:
        said = element("p", "Nothing was refused, and nothing needs a judgement.", class_="lead")
        return element("section", element("h2", "For a person"), said, id="person", aria_label="For a person")
    first, more = _parted(notes)
    cards = [note_card(note, views, listed=True) for note in first]
    cards += [_silenced_card(loop, why, views) for loop, why in silenced]
    head = element("h2", "For a person ", element("span", f"{len(notes) + len(silenced):,}", class_="count"))
    return element(
        "section",
        head,
        element("ul", *cards, class_="cards"),
        *(_more(same, views) for same in more),
        id="person",
        aria_label="For a person",
        data_group=True,
    )


def _parted(notes: Sequence[Note]) -> tuple[list[Note], list[list[Note]]]:
    """The first notes of each rule, and by rule what is more than can be looked over, both in the order of `notes`."""
    same: dict[tuple[Standing, str], list[Note]] = {}
    for note in notes:
        same.setdefault((note.standing, note.finding.code), []).append(note)
    more = [group[_EACH:] for group in same.values() if len(group) > 2 * _EACH]
    later = {note.number for group in more for note in group}
    return [note for note in notes if note.number not in later], more


def _more(notes: Sequence[Note], views: Views) -> str:
    finding = notes[0].finding
    title = [
        f"{len(notes):,} more of ",
        element("b", text(finding.code)),
        element("span", text(finding.name), class_="rule"),
    ]
    cards = (note_card(note, views, listed=True) for note in notes)
    return element(
        "details", element("summary", *title), element("ul", *cards, class_="cards"), class_="more", data_group=True
    )


def _left_to_a_person(report: Report, views: Views) -> int:
    return sum(note.standing in _PERSON for note in views.notes) + len(left_alone(report))


def _silenced_card(loop: LoopSummary, why: str, views: Views) -> str:
    where = element("p", place_link(loop.path, loop.line, views), class_="where")
    return element(
        "li",
        where,
        element("p", f"{why[0].upper()}{why[1:]}."),
        class_="note refused",
        data_state="refused",
        data_code="",
    )


def rules_section(views: Views) -> str:
    """The rules that had something to say, each with its reason."""
    counts: dict[tuple[str, str], Counter[Standing]] = {}
    for note in views.notes:
        counts.setdefault((note.finding.code, note.finding.name), Counter())[note.standing] += 1
    if not counts:
        return ""
    rules = (_rule(code, name, standings) for (code, name), standings in sorted(counts.items()))
    return element("section", element("h2", "Rules"), *rules, id="rules", aria_label="Rules")


def _rule(code: str, name: str, standings: Counter[Standing]) -> str:
    rule = find_rule(code)
    documentation = read_documentation(rule.documentation) if rule else None
    parts = [
        element("p", element("b", f"{heading}. "), sentence(" ".join(told.split())))
        for heading in ("What it does", "Why it matters", "Hint", "Fix safety")
        if documentation and (told := documentation.section(heading))
    ]
    times = element("span", counted(standings.total(), "time"), class_="times")
    title = [element("b", text(code)), " ", element("span", text(name), class_="rule"), times]
    reason = element("span", sentence(documentation.summary), class_="reason") if documentation else ""
    return element("details", element("summary", *title, reason), *parts, class_="rule-card")


def merging_section(report: Report) -> str:
    """Risks, tests, and the commands to verify and to undo."""
    if not risks(report):
        return ""
    return element(
        "section",
        element("h2", "Before you merge"),
        element("div", _list("Know", risks(report)), _list("Try", trials(report)), class_="columns"),
        element("h3", "Verify"),
        _commands(verifying(report)),
        element("h3", "Undo"),
        _commands(undoing(report)),
        id="merging",
        aria_label="Before you merge",
    )


def _list(title: str, sentences: Iterable[str]) -> str:
    rows = (element("li", sentence(told)) for told in sentences)
    return element("div", element("h3", title), element("ul", *rows))


def _commands(commands: Iterable[str]) -> str:
    return element("pre", element("code", text("\n".join(commands))), tabindex="0")
