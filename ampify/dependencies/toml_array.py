"""Finds an array of strings in the text of a TOML file, and adds a string to it in the style of its neighbours."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|[\[\]{},]''',
    re.DOTALL,
)
_HEADER = re.compile(r"\s*\[\[?(?P<name>[^\[\]]+)\]\]?\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class TomlArray:
    """An array of strings: offsets of each string, of a comma after the last one (or None), and of the bracket."""

    strings: tuple[tuple[int, int], ...]
    comma: int | None
    end: int


def table_lines(lines: list[str], table: str) -> range:
    """Indices of the lines under the header `[table]`, without the header; empty if there is no such header."""
    start = None
    for index, line in enumerate(lines):
        header = _HEADER.match(line)
        if header is None:
            continue
        if start is not None:
            return range(start, index)
        if header["name"].replace('"', "").replace(" ", "") == table:
            start = index + 1
    return range(0) if start is None else range(start, len(lines))


def key_line(lines: list[str], within: range, key: str) -> int | None:
    """The index of the line that gives `key` a value."""
    pattern = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*=""")
    return next((index for index in within if pattern.match(lines[index])), None)


def read_array(text: str, start: int) -> TomlArray | None:
    """The array whose bracket opens first at or after offset `start`, with the strings that are its own elements.

    None if it does not end.
    """
    strings: list[tuple[int, int]] = []
    comma: int | None = None
    depth = 0
    for token in _TOKEN.finditer(text, start):
        kind = token[0][0]
        if kind in "[{":
            depth += 1
        elif kind == "]" and depth == 1:
            return TomlArray(tuple(strings), comma, token.start())
        elif kind in "]}":
            depth -= 1
        elif kind in "\"'" and depth == 1:
            strings.append(token.span())
            comma = None
        elif kind == "," and depth == 1 and comma is None:
            comma = token.start()
    return None


def extend_array(text: str, array: TomlArray, value: str) -> str:
    """`text` with `value` as the last string of a filled `array`: on a line of its own if the last one ends a line."""
    start, end = array.strings[-1]
    quote = text[end - 1]
    element = f"{quote}{value}{quote}"
    if "\n" not in text[end : array.end]:
        place = end if array.comma is None else array.comma + 1
        separator = ", " if array.comma is None else " "
        return text[:place] + separator + element + ("" if array.comma is None else ",") + text[place:]
    line_start = text.rfind("\n", 0, start) + 1
    indent = re.match(r"\s*", text[line_start:start])
    margin = indent[0] if indent else ""
    line_end = text.index("\n", end)
    if array.comma is None:
        return f"{text[:end]},{text[end:line_end]}\n{margin}{element}{text[line_end:]}"
    line_end = text.index("\n", array.comma)
    return f"{text[:line_end]}\n{margin}{element},{text[line_end:]}"
