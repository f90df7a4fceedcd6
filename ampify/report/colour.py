"""Colours of a terminal."""

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
