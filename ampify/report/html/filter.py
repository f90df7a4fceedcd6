"""The form that filters a page by state, rule and text; the script shows it, since it is of no use without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ampify.report.html.element import element, icon, text


def filter_form(states: Mapping[str, tuple[str, str]], codes: Iterable[str], unit: str) -> str:
    """The form. `states` are the values of `data-state` with picture and name, `codes` those of `data-code`, and `unit`
    is what is counted, in the plural."""
    boxes = (_box(state, *shown) for state, shown in states.items())
    options = [element("option", "All rules", value=""), *(element("option", text(c), value=c) for c in codes)]
    search = '<input type="search" name="text" placeholder="Any text" size="14" autocomplete="off">'
    return element(
        "form",
        element("fieldset", element("legend", "States", class_="spoken"), *boxes),
        element("label", element("span", "Rule", class_="spoken"), element("select", *options, name="code")),
        element("label", element("span", "Text", class_="spoken"), search),
        element("button", "Reset", type="reset"),
        element("output", aria_live="polite"),
        id="filter",
        role="search",
        aria_label="Filter by state, rule and text",
        data_unit=unit,
        hidden=True,
    )


def _box(state: str, picture: str, name: str) -> str:
    return element(
        "label",
        f'<input type="checkbox" name="state" value="{state}" checked>',
        icon(picture),
        element("span", name),
        class_=f"chip {picture}",
    )
