"""Masks what IPython understands and Python does not, so that a cell reads as Python, and puts it back.

What counts as a magic, where it ends, and which cell magics hold Python: IPython documentation, "Built-in magic
commands" and "IPython reference".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

# Cell magics whose cell is Python and runs once, as if the magic were not there.
_PYTHON_CELLS: Final = frozenset({"capture", "prun", "time", "wandb"})
# Cell magics whose cell is no Python, or is not run.
_OTHER_CELLS: Final = frozenset(
    """! HTML R SVG bash bigquery cmd css cu cython file html javascript js julia latex markdown perl pypy python
    python2 python3 ruby script sh sql svg system sx writefile""".split()
)
_CELL_MAGIC: Final = re.compile(r"\s*%%(!|\w+)")
_RUNS_PYTHON: Final = re.compile(r"%time[ \t]+(?=[^\s-])")
_ASSIGNED: Final = re.compile(r"[A-Za-z_][\w.\[\], ]*=[ \t]*[%!](?!=)")
_HELP: Final = re.compile(r"[A-Za-z_][\w.*]*(\[[^\]]*\])?\?{1,2}[ \t]*$")
_INSTALL: Final = re.compile(r"(pip|pip3|conda|mamba)[ \t]+(install|uninstall|list|show|freeze)\b")
_TRAINING: Final = re.compile(r"\bbackward[ \t]*\(|\.step[ \t]*\(")
_WORD: Final = re.compile(r"""[rRbBfFuUtT]{0,2}(\"{3}|'{3}|"|')|[#()\[\]{}]""")


class HiddenTraining(Exception):
    """A magic that may run training code where nobody can see it; `line` is its 1-based line in the cell."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


@dataclass(slots=True)
class Masks:
    """The masks of a notebook. `mark` is the word, used nowhere else in it, that its comments begin with."""

    mark: str
    hidden: list[str] = field(default_factory=list)

    def masked(self, cell: str) -> str:
        """The cell as Python. Raises HiddenTraining."""
        lines = cell.split("\n")
        for number, first in _magic_lines(lines):
            if _TRAINING.search(lines[number]) and not _RUNS_PYTHON.match(lines[number].lstrip()):
                raise HiddenTraining(number + 1)
            indent = _indentation(lines[first])
            # Of a magic that goes on, the later lines may stand anywhere.
            kind, hidden, python = (
                _split(lines[number][len(indent) :]) if number == first else ("rest", lines[number], "pass")
            )
            ending = "\r" if hidden.endswith("\r") or python.endswith("\r") else ""
            self.hidden.append(hidden.removesuffix("\r"))
            python = python.removesuffix("\r")
            lines[number] = f"{indent}{python}  # {self.mark} {kind} {len(self.hidden) - 1}{ending}"
        return "\n".join(lines)


def restored(text: str, mark: str, hidden: tuple[str, ...]) -> str:
    """The text with the magics in the place of their masks; raises ValueError if a mask was lost or doubled."""
    pattern = re.compile(rf"^([ \t]*)(.*?)  # {re.escape(mark)} (magic|before|rest) (\d+)", re.MULTILINE)
    seen: list[int] = []

    def original(match: re.Match[str]) -> str:
        indent, python, kind, number = match.groups()
        seen.append(int(number))
        kept = hidden[int(number)]
        return {"magic": indent + kept, "before": indent + kept + python, "rest": kept}[kind]

    result = pattern.sub(original, text)
    if sorted(seen) != list(range(len(hidden))):
        raise ValueError("a magic of the notebook would be lost or doubled")
    return result


def _split(code: str) -> tuple[str, str, str]:
    """Of a line with a magic: how it is masked, what is hidden, and the Python in its place."""
    runs = _RUNS_PYTHON.match(code)
    if runs:
        return "before", runs[0], code[runs.end() :]
    assigned = _ASSIGNED.match(code)
    # A name that Python gives every module, and of whose value nothing is known.
    return "magic", code, f"{assigned[0][:-1]}__loader__" if assigned else "pass"


def holds_python(cell: str) -> bool:
    """Whether a code cell is Python, not a script in another language or a file to be written.

    Raises HiddenTraining if a magic that is not known may train.
    """
    match = _CELL_MAGIC.match(cell)
    if match is None or match[1] in _PYTHON_CELLS:
        return True
    if match[1] not in _OTHER_CELLS and _TRAINING.search(cell):
        raise HiddenTraining(1)
    return False


def cell_magic(cell: str) -> str:
    """The first line of a cell with a magic for the whole of it; empty for others."""
    return cell.lstrip().partition("\n")[0] if _CELL_MAGIC.match(cell) else ""


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _magic_lines(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The 0-based numbers of all lines that are no Python, each with that of the line its magic begins on."""
    state = _State()
    first: int | None = None
    for number, line in enumerate(lines):
        if first is not None or (state.fresh and _is_magic(line.strip())):
            first = number if first is None else first
            yield number, first
            if not line.rstrip("\r").endswith("\\"):
                first = None
            continue
        state.read(line.rstrip("\r"))


def _is_magic(code: str) -> bool:
    return (
        code.startswith(("%", "!", "?"))
        or _ASSIGNED.match(code) is not None
        or _HELP.match(code) is not None
        or _INSTALL.match(code) is not None
    )


@dataclass(slots=True)
class _State:
    """How far into a logical line the text is: open brackets, an open string, a line that goes on."""

    depth: int = 0
    quote: str = ""
    continued: bool = False

    @property
    def fresh(self) -> bool:
        return not (self.depth or self.quote or self.continued)

    def read(self, line: str) -> None:
        place = 0
        while place < len(line):
            place = self._string(line, place) if self.quote else self._code(line, place)
            if place < 0:
                break
        self.continued = place >= 0 and line.endswith("\\")
        if len(self.quote) == 1 and not self.continued:
            self.quote = ""

    def _string(self, line: str, place: int) -> int:
        while place < len(line):
            if line[place] == "\\":
                place += 2
            elif line.startswith(self.quote, place):
                place += len(self.quote)
                self.quote = ""
                return place
            else:
                place += 1
        return place

    def _code(self, line: str, place: int) -> int:
        """The place to read on from; below 0 at a comment."""
        match = _WORD.search(line, place)
        if match is None:
            return len(line)
        if match[0] == "#":
            return -1
        if match[1]:
            self.quote = match[1]
        elif match[0] in "([{":
            self.depth += 1
        else:
            self.depth = max(0, self.depth - 1)
        return match.end()
