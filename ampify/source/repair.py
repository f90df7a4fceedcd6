"""Repairs what a newer Python has made unreadable and one word makes readable again: `async` as a keyword argument."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from ampify.model.source import SourceFile
from ampify.source.lines import split_lines

# The methods of tensors and modules whose `async` became `non_blocking` in torch 0.4.
_METHODS: Final = frozenset({"cuda", "copy_", "to", "type"})
_OLD: Final = "async"
_NEW: Final = "non_blocking"
# The word as it is given: between it and the sign may be whatever is no code.
_GIVEN: Final = re.compile(rf"\b{_OLD}(?:\s|\\|#[^\r\n]*)*=")
_LAYOUT: Final = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT})


@dataclass(frozen=True, slots=True)
class Repaired:
    """A source whose text was changed; `raw` is still what was read. `lines` are the 1-based lines of the changes."""

    source: SourceFile
    lines: tuple[int, ...]


def repaired(source: SourceFile) -> Repaired | None:
    """The source with `cuda(async=True)` spelled `cuda(non_blocking=True)`; None without one, or if another has it."""
    # Most that name it mean what it means now, and to take text apart takes long.
    if _OLD not in source.text or not _GIVEN.search(source.text):
        return None
    places = _places(source.text)
    if not places:
        return None
    lines = split_lines(source.text)
    for line, column in reversed(places):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + _NEW + text[column + len(_OLD) :]
    changed = tuple(dict.fromkeys(line for line, _ in places))
    return Repaired(replace(source, text="".join(lines)), changed)


def _places(text: str) -> list[tuple[int, int]]:
    """Where the word stands as the name of an argument; nothing if one of them is another function's."""
    try:
        found = list(_arguments(text))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [place for place, _ in found] if all(method in _METHODS for _, method in found) else []


def _arguments(text: str) -> Iterator[tuple[tuple[int, int], str]]:
    """Each place of `async=`, with what is called there."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(plain).readline) if t.type not in _LAYOUT]
    callees: list[str] = []
    for (before, token), (_, after) in pairwise(pairwise(tokens)):
        if token.string in ("(", "[", "{"):
            callees.append(before.string if token.string == "(" else "")
        elif token.string in (")", "]", "}") and callees:
            callees.pop()
        elif token.string == _OLD and after.string == "=":
            yield token.start, callees[-1] if callees else ""
