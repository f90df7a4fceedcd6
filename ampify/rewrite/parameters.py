"""Adds a parameter to a function, where every call that is given one argument more still means what it did."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ampify.rewrite.failure import RewriteFailed
from ampify.rewrite.splice import Splice
from ampify.rewrite.tree import Tree

_NO_CODE = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})


@dataclass(slots=True)
class _Part:
    """One parameter as it is written, annotation and default included: its first word, where it starts and ends."""

    word: str
    start: int
    end: int


def with_parameter(tree: Tree, node: cst.CSTNode, name: str) -> Iterator[Splice]:
    """The change that gives the function `node` a parameter `name`; raises RewriteFailed if it is no function."""
    if not isinstance(node, cst.FunctionDef):
        raise RewriteFailed(f"a {type(node).__name__} takes no parameter {name!r}")
    opening, parts = _parts(tree.text, tree.span(node)[0])
    named = [part for part in parts if part.word != "**"]
    positional = [*node.params.posonly_params, *node.params.params]
    starred = any(part.word == "*" for part in named)
    by_keyword = starred or any(parameter.default is not None for parameter in positional)
    marker = "*, " if by_keyword and not starred else ""
    if named:
        yield Splice(named[-1].end, named[-1].end, f",{_gap(tree.text, named[-1])}{marker}{name}")
    else:
        yield Splice(opening, opening, f"{name}, " if parts else name)


def _gap(text: str, last: _Part) -> str:
    """What stands before a parameter that follows on `last`: where that has a line of its own, so has the new one."""
    line = text.rfind("\n", 0, last.start) + 1
    before = text[line : last.start]
    rest = text[last.end :].partition("\n")[0]
    if before.strip() or rest.strip() not in ("", ",") or not line:
        return " "
    newline = "\r\n" if text[line - 2 : line] == "\r\n" else "\n"
    return f"{newline}{before}"


def _parts(text: str, start: int) -> tuple[int, list[_Part]]:
    """Where the parameters of the function that is defined at `start` begin, and what they are."""
    lines = text[start:].split("\n")
    starts = [start]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    depth = 0
    opening = 0
    parts: list[_Part] = []
    fresh = True
    for token in tokenize.generate_tokens(io.StringIO(text[start:], newline="\n").readline):
        end = starts[token.end[0] - 1] + token.end[1]
        if token.type in _NO_CODE:
            continue
        if token.string in ("(", "[", "{"):
            depth += 1
            if depth == 1 and not opening:
                opening = end
                continue
        if token.string in (")", "]", "}"):
            depth -= 1
            if depth == 0 and opening:
                return opening, parts
        if depth == 1 and opening and token.string == ",":
            fresh = True
        elif opening:
            if fresh:
                parts.append(_Part(token.string, starts[token.start[0] - 1] + token.start[1], end))
            parts[-1].end, fresh = end, False
    raise RewriteFailed("the parameters of a function have no end")
