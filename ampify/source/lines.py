"""Splits text into the lines that Python's parser sees."""

from __future__ import annotations

import io


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their ends, split where Python's own parser does.

    `str.splitlines` would split at form feeds and Unicode separators as well, which are no line ends in Python code.
    """
    return list(io.StringIO(text, newline=""))
