"""Splits text into the lines that Python's parser sees."""

from __future__ import annotations

import re
from typing import Final

LINE_END: Final = re.compile(r"\r\n|\r|\n")


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their ends, split where Python's own parser does.

    `str.splitlines` would split at form feeds and Unicode separators as well, which are no line ends in Python code.
    """
    starts = [0, *(match.end() for match in LINE_END.finditer(text))]
    lines = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    return lines if lines[-1] else lines[:-1]
