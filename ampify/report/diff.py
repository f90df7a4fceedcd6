"""The changes of a run as a unified diff that `patch` and `git apply` take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import diff_bytes, unified_diff

from ampify.model.plan import Outcome
from ampify.model.source import SourceFile
from ampify.notebook import Notebook
from ampify.report.colour import Colour, paint

_NO_NEWLINE = b"\\ No newline at end of file\n"


def unified(outcome: Outcome) -> bytes:
    """The diff of one file, in that file's own encoding; empty if it does not change or is new.

    It is made of bytes, since a patch must match the file's line ends, its encoding and its byte-order mark.
    """
    if outcome.before is None or outcome.after is None:
        return b""
    if outcome.before.notebook is not None:
        return b"".join(_cells(outcome, outcome.before, outcome.before.notebook, outcome.after))
    before = _lines(outcome.before.raw)
    after = _lines(outcome.before.encode(outcome.after))
    old, new = _header("a", outcome), _header("b", outcome)
    return b"".join(_ended(line) for line in diff_bytes(unified_diff, before, after, old, new))


def _cells(outcome: Outcome, before: SourceFile, notebook: Notebook, after: str) -> Iterator[bytes]:
    """A diff of each cell that changes, for people: `patch` would need one of the notebook's JSON."""
    pairs = zip(notebook.cells, notebook.sources(before.text), notebook.sources(after), strict=True)
    for cell, old, new in pairs:
        name = os.fsencode(f"{outcome.path.lstrip('/')}:cell {cell.number}")
        # The last line of a cell has no end, as all of Jupyter's have none: that is not worth saying.
        was, now = (_lines(f"{text}\n".encode("utf-8", "replace")) for text in (old, new))
        yield from diff_bytes(unified_diff, was, now, b"a/" + name, b"b/" + name)


def _lines(raw: bytes) -> list[bytes]:
    """Lines with their ends, as `patch` counts them: nothing but a line feed ends one."""
    parts = raw.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + [part for part in parts[-1:] if part]


def _header(side: str, outcome: Outcome) -> bytes:
    path = f"{side}/{outcome.path.lstrip('/')}"
    # A tab ends the name for `patch`, which would take a space for its end.
    return os.fsencode(path + "\t" if " " in path else path)


def _ended(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n" + _NO_NEWLINE


def painted(diff: str) -> str:
    """A diff in the colours of a terminal."""
    return "".join(paint(line, _colour(line)) for line in diff.splitlines(keepends=True))


def _colour(line: str) -> Colour | None:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    colours: dict[str, Colour] = {"+": "green", "-": "red", "@": "cyan"}
    return colours.get(line[0])
