"""Leads from lines of the migrated copy, which is gone after the runs, to those of the user's files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

# A line of a traceback.
_FRAME: Final = re.compile(r'File "(?P<path>[^"\n]+)", line (?P<line>\d+)')


@dataclass(frozen=True, slots=True)
class Origins:
    """By path relative to the project, the line of the user's file for each of the copy's, both from 1; a path that is
    not there has the same lines."""

    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def line(self, path: str, line: int) -> int:
        """The line of the user's file that became `line` of the copy, or the one before what was inserted."""
        known = self.lines.get(path, ())
        return known[line - 1] if 0 < line <= len(known) else line

    def place(self, place: str) -> str:
        """The same for a `path:line`; anything else stays as it is."""
        path, _, line = place.rpartition(":")
        return f"{path}:{self.line(path, int(line))}" if line.isdecimal() else place

    def traceback(self, text: str, tree: Path, root: Path) -> str:
        """A traceback through files of the copy at `tree`, as one through those of the project at `root`."""

        def there(frame: re.Match[str]) -> str:
            path = Path(frame["path"])
            if not path.is_relative_to(tree):
                return frame[0]
            inside = path.relative_to(tree)
            return f'File "{root / inside}", line {self.line(inside.as_posix(), int(frame["line"]))}'

        return _FRAME.sub(there, text)


def line_origins(original: Path, migrated: Path, changed: Iterable[str]) -> Origins:
    """The origins of the lines of the `changed` files, of which both folders hold a version; others are left out."""
    pairs = ((path, original / path, migrated / path) for path in changed)
    return Origins({path: _origins(_read(old), _read(new)) for path, old, new in pairs if old.is_file()})


def _read(path: Path) -> list[str]:
    # Only compared: what is no text in this encoding is the same on both sides.
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _origins(before: Sequence[str], after: Sequence[str]) -> tuple[int, ...]:
    found: list[int] = []
    for kind, start, end, first, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            found += range(start + 1, end + 1)
        else:
            found += [_likest(line, before, start, end) for line in after[first:last]]
    return tuple(found)


def _likest(line: str, before: Sequence[str], start: int, end: int) -> int:
    """The number of the line that `line` was made of, among those that were replaced; else of the line before."""
    likeness = {
        number: SequenceMatcher(None, before[number].strip(), line.strip()).ratio() for number in range(start, end)
    }
    return max(likeness, key=lambda number: likeness[number]) + 1 if likeness else max(start, 1)
