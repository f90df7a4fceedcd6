"""Writes the body of a `with amp.scale_loss(...)` block without the block, its backward on what a scaler scales."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from ampify.index.syntax import expressions, in_order, last_name, statements
from ampify.model import facts as f

_COMMENT = re.compile(r"#[^\n]*$")
_UNIT = "    "


def opens_block(statement: f.With, name: str | None) -> bool:
    """Whether a `with` scales a loss under a name."""
    return any(
        isinstance(target, f.Name) and target.id == name and isinstance(context, f.Call)
        for context, target in statement.items
    )


def body_code(facts: f.FileFacts, statement: f.With, scaler: str, loss: str) -> str | None:
    """The statements of a block, dedented, with its comments, on `scaler.scale(loss)`; None if they cannot be had."""
    target = statement.items[0][1]
    assert isinstance(target, f.Name)
    if '"""' in facts.text(statement.span) or "'''" in facts.text(statement.span):
        return None
    uses = list(_uses(statement, target.id))
    scaled = f"{scaler}.scale({loss})"
    alone = len(uses) == 1 and uses[0][1] and "\n" not in loss
    text = _body(facts, statement, [node.span for node, _ in uses] if alone else [], scaled)
    if text is None:
        return None
    return text if alone else f"{target.id} = {scaled}\n{text}"


def _uses(statement: f.With, name: str) -> Iterator[tuple[f.Name, bool]]:
    """The places in a block that read a name, and whether a backward runs there."""
    for inner in statements(statement.body):
        for expression in expressions(inner):
            for node, parents in in_order(expression):
                if isinstance(node, f.Name) and node.id == name:
                    outer = parents[-1] if parents else None
                    yield node, outer is not None and "backward" in (last_name(outer), getattr(outer, "attr", ""))


def _body(facts: f.FileFacts, statement: f.With, spans: list[f.Span], code: str) -> str | None:
    """The body's lines, the expressions at `spans` replaced."""
    target = statement.items[0][1]
    assert target is not None
    header, first, last = target.span[2], statement.body[0].span[0], statement.span[2]
    lines = {number: facts.lines[number - 1].rstrip("\r\n") for number in range(header + 1, last + 1)}
    if first == header:
        column = statement.body[0].span[1]
        lines = {header: facts.lines[header - 1].rstrip("\r\n")}
        spans = [(a, b - column, c, d - column) for a, b, c, d in spans]
        lines[header] = lines[header][column:]
    for line, column, _, end in sorted(spans, reverse=True):
        lines[line] = lines[line][:column] + code + lines[line][end:]
    comment = _COMMENT.search(facts.lines[header - 1].rstrip("\r\n")) if first != header else None
    text = textwrap.dedent("\n".join(lines[number] for number in sorted(lines))).strip("\n")
    if text[:1] in (" ", "\t") or not _by_fours(text):
        return None
    return f"{comment.group()}\n{text}" if comment else text


def _by_fours(text: str) -> bool:
    """Whether lines are indented by four spaces a level, as new code is."""
    depths = (line[: len(line) - len(line.lstrip())] for line in text.splitlines() if line.strip())
    return all(not depth.replace(_UNIT, "") for depth in depths)
