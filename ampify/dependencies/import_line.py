"""Where a script imports what it trains with: there a reader looks for what it needs to run."""

from __future__ import annotations

import re

_TRAINS_WITH = r"(?:torch|apex|ampify_runtime)\b"
_IMPORT = re.compile(
    rf"^[ \t]*(?:from[ \t]+{_TRAINS_WITH}[\w.]*[ \t]+import\b|import[ \t]+{_TRAINS_WITH})", re.MULTILINE
)


def import_line(text: str) -> int:
    """The 1-based line of the first import of torch, apex or the runtime; 1 where none is at the start of a line.

    It stays where it is as the runtime's import comes in after it.
    """
    found = _IMPORT.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else 1
