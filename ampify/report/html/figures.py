"""Numbers that are to be seen at a glance: figures with what they count, and a bar with its legend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ampify.report.html.element import element, icon

_BAR: Final = 1000


def figures(entries: Iterable[tuple[str, int, str]]) -> str:
    """Large numbers: what each counts, the number, and the part of the page that it is about."""
    return element("dl", *(_figure(*entry) for entry in entries), class_="figures")


def _figure(name: str, number: int, target: str) -> str:
    return element(
        "div", element("dt", name), element("dd", element("a", f"{number:,}", href=target) if number else "0")
    )


def bar(parts: Mapping[str, tuple[int, str]], label: str) -> str:
    """Shares of a whole, as a bar and as words: by state, how many and what they are called. Nothing if all are 0."""
    shown = {state: part for state, part in parts.items() if part[0]}
    if not shown:
        return ""
    total = sum(number for number, _ in shown.values())
    pieces, start = [], 0.0
    for state, (number, _) in shown.items():
        width = _BAR * number / total
        pieces.append(
            element(
                "rect", x=f"{start:.1f}", y="0", width=f"{max(width - 2, 1):.1f}", height="10", class_=f"fill {state}"
            )
        )
        start += width
    drawn = element(
        "svg", *pieces, viewBox=f"0 0 {_BAR} 10", preserveAspectRatio="none", class_="bar", aria_hidden="true"
    )
    legend = (element("li", icon(state), f"{number:,} {name}", class_=state) for state, (number, name) in shown.items())
    return drawn + element("ul", *legend, class_="legend", aria_label=label)
