"""Gives new code the indentation and the line ends of the place it goes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import libcst as cst

from ampify.rewrite.excerpt import excerpt
from ampify.rewrite.failure import RewriteFailed
from ampify.rewrite.tree import Tree, parse
from ampify.source import split_lines

_LEVEL: Final = "    "
_STRINGS: Final = (cst.SimpleString, cst.FormattedString)


@dataclass(frozen=True, slots=True)
class Shift:
    """What wrapping a block does to the lines in it: `unit` goes in after `base`, the indentation of the block."""

    base: str
    unit: str


def shifted(indentation: str, shifts: Iterable[Shift]) -> str:
    """`indentation` as it is once all `shifts` are made."""
    for shift in sorted(shifts, key=lambda shift: len(shift.base), reverse=True):
        place = len(shift.base)
        indentation = indentation[:place] + shift.unit + indentation[place:]
    return indentation


def laid_out(code: str, indentation: str, unit: str, newline: str) -> str:
    """The statements `code`, dedented and with four spaces a level, as whole lines at `indentation`."""
    tree = parse(excerpt(code))
    if not tree.module.body and not code.strip().startswith("#"):
        raise RewriteFailed(f"new code {code!r} holds no statement")
    inside = lines_inside_strings(tree)
    lines = []
    for number, line in enumerate(split_lines(code), 1):
        content = line.rstrip("\r\n")
        if number not in inside and content.strip():
            levels = (len(content) - len(content.lstrip(" "))) // len(_LEVEL)
            content = indentation + unit * levels + content[levels * len(_LEVEL) :]
        lines.append(content + newline)
    return "".join(lines)


def lines_inside_strings(tree: Tree) -> frozenset[int]:
    """The 1-based numbers of lines that begin inside a string: indenting those would change what it says."""
    spans = (span for node, span in tree.spans.items() if isinstance(node, _STRINGS))
    return frozenset(
        number for start, end in spans for number in range(tree.line_number(start) + 1, tree.line_number(end - 1) + 1)
    )
