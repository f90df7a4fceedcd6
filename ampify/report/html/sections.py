"""The parts of a file that are compared each for itself: the file as it is, or the cells of a notebook."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ampify.model.plan import Outcome
from ampify.model.source import SourceFile
from ampify.notebook import Notebook
from ampify.report.excerpt import lines_of
from ampify.report.html.comparison import Block, compare


@dataclass(frozen=True, slots=True)
class Section:
    """A whole file, without a title, or a cell, or several of which nothing is said.

    Lines count from 1 within the section; `above` is how many lines of the file, or of the program of the notebook's
    cells, come before the first. `after` is None in a file that does not change.
    """

    title: str
    above: int
    before: tuple[str, ...]
    after: tuple[str, ...] | None
    blocks: tuple[Block, ...]

    @property
    def silent(self) -> bool:
        """Whether none of its lines is shown."""
        return all(block.kind == "gap" for block in self.blocks)


def sections_of(outcome: Outcome, spoken_of: Collection[int]) -> tuple[Section, ...]:
    """The sections of a file, in order, with the lines that change and those in `spoken_of`."""
    source = outcome.before
    if source is None:
        return (Section("", 0, (), None, ()),)
    if source.notebook is not None:
        return tuple(_gathered(tuple(_cells(source, source.notebook, outcome.after, spoken_of))))
    after = None if outcome.after is None else lines_of(outcome.after)
    return (_compared("", 0, lines_of(source.text), after, spoken_of),)


def _cells(
    source: SourceFile, notebook: Notebook, program: str | None, spoken_of: Collection[int]
) -> Iterator[Section]:
    # As they are in the notebook, magics and all, without the lines that part the cells in the program.
    old = notebook.sources(source.text)
    new = old if program is None else notebook.sources(program)
    for cell, was, now in zip(notebook.cells, old, new, strict=True):
        after = None if program is None else lines_of(now)
        yield _compared(f"Cell {cell.number}", cell.first_line - 1, lines_of(was), after, spoken_of)


def _compared(
    title: str, above: int, before: tuple[str, ...], after: tuple[str, ...] | None, spoken_of: Collection[int]
) -> Section:
    own = {line - above for line in spoken_of if 0 < line - above <= len(before)}
    return Section(title, above, before, after, compare(before, after, own))


def _gathered(cells: Sequence[Section]) -> Iterator[Section]:
    """The cells, those of which nothing is shown together with their neighbours."""
    start = 0
    for end in range(1, len(cells) + 1):
        if end < len(cells) and cells[start].silent and cells[end].silent:
            continue
        yield cells[start] if end == start + 1 else _together(cells[start:end])
        start = end


def _together(cells: Sequence[Section]) -> Section:
    first, last = cells[0], cells[-1]
    hidden = sum(block.hidden for cell in cells for block in cell.blocks)
    title = f"Cells {first.title.removeprefix('Cell ')} to {last.title.removeprefix('Cell ')}"
    blocks = (Block("gap", hidden=hidden),) if hidden else ()
    # Their lines are the same on both sides: none counts as a change.
    return Section(title, first.above, (), None if first.after is None else (), blocks)
