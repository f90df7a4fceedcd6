"""Reads TOML, with the standard library where it can and with `tomli` on Python 3.10."""

from __future__ import annotations

import sys
from importlib import import_module

Table = dict[str, object]

_reader = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def parse_toml(text: str) -> Table:
    """The document in `text`; raises ValueError, with the place in its message, if it is not TOML."""
    document: Table = _reader.loads(text.replace("\r\n", "\n"))
    return document


def table_at(document: object, *keys: str) -> Table:
    """The table under `keys`, empty if one of them is missing or is no table."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}
