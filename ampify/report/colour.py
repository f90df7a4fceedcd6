"""Colours of a terminal, and whether they are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Colour: TypeAlias = Literal["bold", "red", "green", "yellow", "cyan", "dim"]

_CODES: Mapping[Colour, int] = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


def paint(text: str, colour: Colour | None, *, enabled: bool = True) -> str:
    """`text` in a colour, with line ends left outside of it."""
    if not enabled or colour is None:
        return text
    body = text.rstrip("\r\n")
    return f"\033[{_CODES[colour]}m{body}\033[0m{text[len(body) :]}"


def wants_colour(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Whether to colour what goes to a stream, by the conventions of no-color.org and force-color.org.

    A wish for none goes before a wish for some; both before what the stream is.
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return environment["FORCE_COLOR"] != "0"
    return terminal and environment.get("TERM") != "dumb"
