"""The JSON of a notebook as text: where the source of each cell stands, and how to write it anew in its own form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

Span = tuple[int, int]

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_LINE_IN_LITERAL: Final = re.compile(r"(?:[^\\]|\\[^n])*?(?:\\n|$)", re.DOTALL)
_DECODER: Final = json.JSONDecoder(strict=True)


class BrokenNotebook(Exception):
    """A file that is no notebook of Python code that can be read: what is wrong, what to do, and the line if known."""

    def __init__(self, message: str, hint: str, line: int | None = None) -> None:
        super().__init__(message, hint, line)
        self.message = message
        self.hint = hint
        self.line = line


@dataclass(frozen=True, slots=True)
class CodeCell:
    """A code cell: its 1-based number among all cells, the range of its source's value in the JSON, and its text."""

    number: int
    span: Span
    text: str


def code_cells(document: str) -> tuple[CodeCell, ...]:
    """The code cells of a notebook; raises BrokenNotebook."""
    read = _parsed(document)
    _require_python(read)
    cells = read["cells"]
    spans = list(_source_spans(document))
    return tuple(
        CodeCell(number, spans[number - 1], _text(cell, number))
        for number, cell in enumerate(cells, 1)
        if cell.get("cell_type") == "code"
    )


def source_literal(old: str, new: str, *, ascii_only: bool) -> str:
    """The JSON of a source that was `old` and shall be `new`: a list of lines or one string, as it was.

    Lines that stay keep their spelling, escapes included; layout is that of `old`.
    """
    if old.startswith('"'):
        known = {json.loads(f'"{part}"'): part for part in _LINE_IN_LITERAL.findall(old[1:-1])}
        return '"' + "".join(_spelled(line, known, ascii_only) for line in _lines(new)) + '"'
    items = list(_item_spans(old))
    known = {json.loads(old[a:b]): old[a + 1 : b - 1] for a, b in items}
    opening = old[: items[0][0]]
    between = old[items[0][1] : items[1][0]] if len(items) > 1 else "," + opening[1:]
    spelled = (f'"{_spelled(line, known, ascii_only)}"' for line in _lines(new))
    return opening + between.join(spelled) + old[items[-1][1] :]


def _parsed(document: str) -> dict[str, Any]:
    try:
        read = _DECODER.decode(document)
    except RecursionError as error:
        raise BrokenNotebook("is nested too deeply for a notebook", "see what made it") from error
    except json.JSONDecodeError as error:
        hint = "open and save it with Jupyter, or leave it out with --exclude"
        raise BrokenNotebook(f"is no notebook, for it is not JSON: {error.msg}", hint, error.lineno) from error
    if isinstance(read, dict) and "worksheets" in read:
        hint = "convert it: `jupyter nbconvert --to notebook --nbformat 4 FILE`"
        raise BrokenNotebook("is a notebook of format 3, which Jupyter has left behind", hint)
    if not isinstance(read, dict) or not _are_cells(read.get("cells")):
        hint = "open and save it with Jupyter, or leave it out with --exclude"
        raise BrokenNotebook("is no notebook of format 4: it has no list of cells", hint)
    return read


def _are_cells(cells: object) -> bool:
    return isinstance(cells, list) and all(isinstance(cell, dict) for cell in cells)


def _require_python(read: dict[str, Any]) -> None:
    metadata = read.get("metadata")
    facts = metadata if isinstance(metadata, dict) else {}
    named = [(facts.get(key) or {}) for key in ("language_info", "kernelspec")]
    languages = [
        entry.get(key) for entry, key in zip(named, ("name", "language"), strict=True) if isinstance(entry, dict)
    ]
    language = next((name for name in languages if isinstance(name, str) and name), "python")
    if language.lower() not in ("python", "ipython", "python3"):
        raise BrokenNotebook(f"is a notebook of {language}, not of Python", "leave it out with --exclude")


def _text(cell: dict[str, Any], number: int) -> str:
    source = cell.get("source")
    if isinstance(source, str):
        return source
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    raise BrokenNotebook(f"has no source in cell {number}", "open and save it with Jupyter")


def _source_spans(document: str) -> Iterator[Span]:
    """The range of each cell's source, an empty one where a cell has none."""
    cells = dict(_members(document, 0))["cells"]
    for start, _ in _elements(document, cells[0]):
        yield dict(_members(document, start)).get("source", (start, start))


def _item_spans(literal: str) -> Iterator[Span]:
    return _elements(literal, 0)


def _members(text: str, place: int) -> Iterator[tuple[str, Span]]:
    """The members of the object at `place`: names, and the ranges of their values. The text is known to be JSON."""
    place = _after_space(text, _after_space(text, place) + 1)
    while text[place] != "}":
        name, place = _DECODER.raw_decode(text, place)
        start = _after_space(text, _after_space(text, place) + 1)
        _, end = _DECODER.raw_decode(text, start)
        yield name, (start, end)
        place = _after_comma(text, end)


def _elements(text: str, place: int) -> Iterator[Span]:
    """The ranges of the elements of the array at `place`."""
    place = _after_space(text, _after_space(text, place) + 1)
    while text[place] != "]":
        _, end = _DECODER.raw_decode(text, place)
        yield place, end
        place = _after_comma(text, end)


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _after_comma(text: str, place: int) -> int:
    place = _after_space(text, place)
    return _after_space(text, place + 1) if text[place] == "," else place


def _lines(text: str) -> list[str]:
    """The lines as Jupyter keeps them, with their ends."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + [part for part in parts[-1:] if part]


def _spelled(line: str, known: dict[str, str], ascii_only: bool) -> str:
    return known[line] if line in known else json.dumps(line, ensure_ascii=ascii_only)[1:-1]
