"""Line edits in files that are not Python: requirement lists and the like."""

from __future__ import annotations

from collections.abc import Sequence

from ampify.model.edit import Edit, EditLines
from ampify.model.source import SourceFile
from ampify.rewrite.failure import RewriteFailed
from ampify.source import split_lines


def rewrite_lines(source: SourceFile, edits: Sequence[Edit]) -> str:
    """The text of `source` with all line edits made; raises RewriteFailed if they overlap or lie outside the file.

    Edits at the same line apply in the order given. New lines get the file's line end; a last line without one stays
    without one, unless something is appended to it.
    """
    lines = split_lines(source.text)
    pieces: list[str] = []
    done = 0
    for edit in sorted(_line_edits(edits), key=lambda edit: edit.line):
        start, end = edit.line - 1, edit.line - 1 + edit.count
        if start < done:
            raise RewriteFailed(f"two edits change line {edit.line} of {source.path}")
        if start < 0 or edit.count < 0 or end > len(lines):
            raise RewriteFailed(f"{source.path} has {len(lines)} lines, but line {edit.line} is to be edited")
        pieces += lines[done:start]
        pieces += [line.rstrip("\n") + source.newline for line in split_lines(edit.text)]
        done = end
    return _joined(pieces + lines[done:], source)


def _line_edits(edits: Sequence[Edit]) -> list[EditLines]:
    found = [edit for edit in edits if isinstance(edit, EditLines)]
    if len(found) != len(edits):
        raise RewriteFailed("a file that is not Python can only be edited by lines")
    return found


def _joined(lines: Sequence[str], source: SourceFile) -> str:
    """The lines as one text; one that has come to stand in the middle gets the line end it lacks."""
    whole = [line if line.endswith(("\n", "\r")) else line + source.newline for line in lines[:-1]]
    return "".join([*whole, *lines[-1:]])
