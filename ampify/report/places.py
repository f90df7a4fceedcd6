"""How a report names a place: by file and line, in a notebook by cell and the line in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ampify.model.plan import Outcome
from ampify.notebook import Notebook


@dataclass(frozen=True, slots=True)
class Places:
    """The notebooks of a run, by path; lines of theirs are those of the program of their cells."""

    notebooks: Mapping[str, Notebook] = field(default_factory=dict)

    def cell(self, path: str, line: int) -> tuple[int | None, int]:
        """The number of the cell that holds a line, None in other files, and the line in that cell or file."""
        notebook = self.notebooks.get(path)
        return notebook.place(line) if notebook else (None, line)

    def within(self, path: str, line: int) -> str:
        """The place within its file: `12`, or `cell 3:12`."""
        cell, line = self.cell(path, line)
        return str(line) if cell is None else f"cell {cell}:{line}"

    def named(self, path: str, line: int) -> str:
        """The place in full: `train.py:12`, or `train.ipynb:cell 3:12`."""
        return f"{path}:{self.within(path, line)}"

    def worded(self, path: str, line: int) -> str:
        """The place within its file in words: `line 12`, or `cell 3, line 12`."""
        cell, line = self.cell(path, line)
        return f"line {line}" if cell is None else f"cell {cell}, line {line}"

    def prefix(self, path: str, line: int) -> str:
        """What a message begins with where a place cannot be named otherwise: `cell 3, line 12: `, or nothing."""
        return f"{self.worded(path, line)}: " if path in self.notebooks else ""


def places_of(outcomes: Iterable[Outcome]) -> Places:
    """The places in the files of these outcomes."""
    sources = (outcome.before for outcome in outcomes if outcome.before is not None)
    return Places({source.path: source.notebook for source in sources if source.notebook is not None})
