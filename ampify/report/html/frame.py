"""What every page of ours stands in: its head, with a policy that lets nothing in, the bar at the top, the script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from typing import Final

import ampify
from ampify.report.html.element import element, text

_FOOT: Final = "This page is one file and asks no network."


def framed(title: str, sections: Iterable[tuple[str, str]], content: str, style: str = "") -> str:
    """A whole document. `sections` are the names and titles that the bar at the top links to; `style` adds to ours.

    Nothing in it asks the network, and nothing but our own script runs.
    """
    style = _asset("style.css") + style
    script = _asset("script.js")
    head = element(
        "head",
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">',
        element("title", text(title)),
        element("style", style),
    )
    main = element("main", content, id="main", tabindex="-1")
    foot = element("footer", element("p", text(f"ampify {ampify.__version__}. {_FOOT}")))
    body = element("body", _asset("pictures.svg"), _top(sections), main, foot, element("script", script))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _top(sections: Iterable[tuple[str, str]]) -> str:
    links = (element("li", element("a", title, href=f"#{name}")) for name, title in sections)
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
