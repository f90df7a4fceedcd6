"""Cases: small projects in one text, whose comments say what the index must find there.

A line `#> file engine/build.py` starts a file; what stands before the first such line is `train.py`. Any other `#>`
comment lists, separated by `;`, what must be found on its line. Together they are all that must be found:

    optimizer, other          a backward of a training loop, and the optimizers it feeds as the code there names them
    unnamed                   the same where the code there cannot name them
    optimizer where HAS_AMP   the same where a condition that can be asked there decides whether amp is on
    not training              a backward that takes no part in training
    refused closure-step      an obstacle
    unresolved step           a site that nobody knows what to make of
    initialize model, optimizer                where the call goes: after the statement that starts on this line
    initialize model, optimizer bare           the same where a name of an outer scope is not to be bound anew
    initialized model, optimizer               where it stands already
    clips optimizer           a clip of what that optimizer holds; `clips unnamed`, `clips masters`
    saves state, loads checkpoint              optimizer state and the dict it goes into or comes from
    wraps early, cross entropy, penalty        as `TrainingLoop` has them

The first line may say `does not run` where a case needs what is not at hand. With several loops, all but the first loop's entries end in `(loop 2)` and so on. A further entry is checked on its own:

    name <- Adam@3, SGD@5     what an expression on this line may evaluate to: see `origins`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ampify.model.source import SourceFile

CASES = Path(__file__).parent / "cases"
FIRST = "train.py"
STILL = "does not run"
FILE = re.compile(r"#> file (?P<path>\S+)[ \t]*(?:\r\n|\r|\n)")
MARKS = re.compile(r"[ \t]*#>(?P<marks>[^\r\n]*)")
LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """Something said of one line."""

    path: str
    line: int
    text: str

    @property
    def flows(self) -> bool:
        """Whether it says what an expression evaluates to."""
        return " <- " in self.text


@dataclass(frozen=True, slots=True)
class Case:
    """A project, without the comments that say what is to be found, and what they say."""

    name: str
    sources: tuple[SourceFile, ...]
    marks: tuple[Mark, ...]
    runs: bool

    @property
    def script(self) -> str:
        """The file to run: `train.py` or, where there is none, the last."""
        paths = [source.path for source in self.sources]
        return FIRST if FIRST in paths else paths[-1]


def all_cases() -> Iterator[Case]:
    """Every text under `cases/`, in the order of their names."""
    for path in sorted(CASES.rglob("*.txt")):
        name = path.relative_to(CASES).with_suffix("").as_posix()
        yield read_case(name, path.read_bytes().decode())


def read_case(name: str, text: str) -> Case:
    """Takes a text apart into files, and their comments from the code."""
    parts = [FIRST, *FILE.split(text)]
    if not parts[1].strip() and len(parts) > 2:
        parts = parts[2:]
    sources, marks = [], []
    for path, code in zip(parts[::2], parts[1::2], strict=True):
        sources.append(_source(path, MARKS.sub("", code)))
        marks += _marks(path, code)
    said = tuple(sorted(mark for mark in marks if mark.text != STILL))
    return Case(name, tuple(sources), said, runs=len(said) == len(marks))


def _source(path: str, text: str) -> SourceFile:
    return SourceFile(path, text.encode(), text, "utf-8", b"", "\n")


def _marks(path: str, code: str) -> Iterator[Mark]:
    for number, line in enumerate(LINE_END.split(code), 1):
        found = MARKS.search(line)
        for mark in found["marks"].split(";") if found else ():
            yield Mark(path, number, mark.strip())
