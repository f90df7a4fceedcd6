"""What is said of a place, as it stands beside the lines and in the list of what is left to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ampify.report.html.element import element, icon, sentence, text
from ampify.report.html.views import Note, Views
from ampify.report.standing import Standing

# What the page's filter calls each standing, and its picture where that is another one.
STATES: Final[Mapping[Standing, str]] = {
    "failed": "refused",
    "refused": "refused",
    "review": "review",
    "withheld": "refused",
    "applied": "rewritten",
}
_PICTURES: Final[Mapping[Standing, str]] = {**STATES, "withheld": "not_training"}
_WORDS: Final[Mapping[Standing, str]] = {
    "failed": "could not be done",
    "refused": "not migrated",
    "review": "to look at",
    "withheld": "left, as its loop is refused",
    "applied": "rewritten",
}


def note_card(note: Note, views: Views, *, listed: bool = False) -> str:
    """A note. In the list it names its place and links to it; beside the lines it can be linked to."""
    finding = note.finding
    heading = [
        icon(_PICTURES[note.standing]),
        element("b", text(finding.code)),
        element("span", text(finding.name), class_="rule"),
        element("span", _WORDS[note.standing], class_="came-to"),
    ]
    place = (
        [element("p", place_link(finding.anchor.path, finding.anchor.line, views), class_="where")] if listed else []
    )
    return element(
        "li" if listed else "div",
        *place,
        element("p", *heading, class_="what"),
        element("p", sentence(finding.message), class_="message"),
        _related(note, views),
        element("p", element("b", "What to do: "), sentence(finding.hint), class_="hint") if finding.hint else "",
        class_=f"note {_PICTURES[note.standing]}",
        role=None if listed else "note",
        id=None if listed else f"n{note.number}",
        aria_label=None
        if listed
        else f"{finding.code} at {views.places.worded(finding.anchor.path, finding.anchor.line)}",
        data_state=STATES[note.standing],
        data_code=finding.code,
    )


def place_link(path: str, line: int, views: Views, label: str = "") -> str:
    """A place as a link to the line, or as text where it cannot be shown."""
    shown = element("code", text(label or views.places.named(path, line)))
    target = views.target((path, line))
    return element("a", shown, href=target) if target else shown


def badge(state: str, words: str) -> str:
    """A state with its picture and colour."""
    return element("span", icon(state), text(words), class_=f"badge {state}")


def _related(note: Note, views: Views) -> str:
    rows = [
        element("li", place_link(r.anchor.path, r.anchor.line, views), " ", sentence(r.message))
        for r in note.finding.related
    ]
    return element("ul", *rows, class_="related") if rows else ""
