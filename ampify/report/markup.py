"""Text as GitHub's Markdown shows it: nothing that a repository holds may change the look of a report, or call people.

Our own texts mark code by backticks and nothing else.
"""

from __future__ import annotations

import re
from typing import Final

_CODE: Final = re.compile(r"`([^`\n]+)`")
# What starts markup within a line, HTML, a mention, or a reference to an issue.
_SPECIAL: Final = re.compile(r"[\\*_\[\]<>&#@~!$]")
_ENTITIES: Final = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "@<!-- -->", "#": "#<!-- -->"}
_LONGEST_CODE: Final = 90


def inline(text: str) -> str:
    """A sentence of ours as Markdown: its backticks stay, all else is shown as it is."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(code(part) if index % 2 else _escaped(part) for index, part in enumerate(parts))


def code(text: str) -> str:
    """A code span of any text, on one line, shortened where it is long."""
    line = shortened(text)
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{padding}{line}{padding}{fence}" if line else ""


def link(text: str, target: str | None) -> str:
    """A link from Markdown, or just the Markdown where there is no target."""
    return f"[{text}]({target})" if target else text


def row(*cells: str) -> str:
    """A line of a table, from Markdown."""
    kept = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(kept)} |\n"


def shortened(text: str, longest: int = _LONGEST_CODE) -> str:
    """The text on one line and not longer than that."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), text)
