"""The code of a notebook's cells as one program, cell after cell, and where each of its lines comes from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from ampify.notebook.document import BrokenNotebook, CodeCell, Span, code_cells, source_literal
from ampify.notebook.magics import HiddenTraining, Masks, cell_magic, holds_python, restored

_Result = TypeVar("_Result")
# As in `ampify.source`: where Python's parser ends a line.
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of Python: its 1-based number among all cells, and the 1-based line of the program that it begins on.

    `span` is the range of its source's value in the JSON of the notebook.
    """

    number: int
    first_line: int
    span: Span


@dataclass(frozen=True, slots=True)
class Notebook:
    """What a program was read from. `mark` begins the comments that are no part of the cells: those on the lines that
    separate cells, and on masks of magics; `magics` is what was masked."""

    cells: tuple[Cell, ...]
    mark: str
    magics: tuple[str, ...]

    def place(self, line: int) -> tuple[int, int]:
        """The number of the cell that holds a line of the program, and the line in it."""
        at = max(0, bisect_right(self.cells, line, key=lambda cell: cell.first_line) - 1)
        return self.cells[at].number, line - self.cells[at].first_line + 1

    def sources(self, program: str) -> tuple[str, ...]:
        """The text of each cell, magics and all; raises ValueError if the program is not in as many parts."""
        parts = re.split(
            rf"\n{re.escape(_separator(self.mark, 0))[:-1]}\d+\n", restored(program, self.mark, self.magics)
        )
        if len(parts) != len(self.cells):
            raise ValueError(f"the program has {len(parts)} cells in place of {len(self.cells)}")
        return tuple(parts)

    def document(self, before: str, old: str, new: str) -> str:
        """The JSON `before`, of the program `old`, with that of the program `new`; all else is as it was.

        Raises ValueError.
        """
        pieces: list[str] = []
        place = 0
        ascii_only = before.isascii()
        for cell, was, now in zip(self.cells, self.sources(old), self.sources(new), strict=True):
            if was == now:
                continue
            if cell_magic(was) != cell_magic(now):
                raise ValueError(f"cell {cell.number} would begin with something else than its magic")
            start, end = cell.span
            pieces += (before[place:start], source_literal(before[start:end], now, ascii_only=ascii_only))
            place = end
        return "".join([*pieces, before[place:]])


def read_notebook(document: str) -> tuple[Notebook, str]:
    """The notebook in the JSON `document`, and the program of its cells; raises BrokenNotebook."""
    found = [cell for cell in code_cells(document) if _seen_through(cell, holds_python)]
    masks = Masks(_free_mark(found))
    cells: list[Cell] = []
    program = ""
    for code in found:
        if cells:
            program += f"\n{_separator(masks.mark, code.number)}\n"
        cells.append(Cell(code.number, len(_LINE_END.findall(program)) + 1, code.span))
        program += _seen_through(code, masks.masked)
    if not cells:
        cells.append(Cell(1, 1, (0, 0)))
    return Notebook(tuple(cells), masks.mark, tuple(masks.hidden)), program


def _seen_through(cell: CodeCell, read: Callable[[str], _Result]) -> _Result:
    try:
        return read(cell.text)
    except HiddenTraining as hidden:
        message = f"trains in a magic (cell {cell.number}, line {hidden.line}), where ampify cannot follow"
        raise BrokenNotebook(message, "take the magic away, or write the line as plain Python") from hidden


def _separator(mark: str, number: int) -> str:
    # A statement, not a comment alone: nothing that is put before or after another statement goes past it.
    return f"pass  # {mark} cell {number}"


def _free_mark(cells: list[CodeCell]) -> str:
    mark = "notebook"
    while any(f"# {mark} " in cell.text for cell in cells):
        mark += "_"
    return mark
