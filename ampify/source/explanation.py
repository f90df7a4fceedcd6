"""Explains to the author of a file why it does not parse."""

from __future__ import annotations

import re
import sys
from typing import Final

from ampify.model.source import SourceFile
from ampify.source.dialect import newer_syntax, python2_construct
from ampify.source.failure import NEWER_PYTHON, NOT_PYTHON, NOT_TEXT, PYTHON_2, UnreadableSource
from ampify.source.lines import split_lines

_CONFLICT_START: Final = re.compile(r"<{7}( |$)")
_CONFLICT_END: Final = re.compile(r">{7}( |$)")


def explain_syntax_error(
    source: SourceFile,
    error: SyntaxError | ValueError | RecursionError | MemoryError,
    running: tuple[int, int] = sys.version_info[:2],
) -> UnreadableSource:
    """Why `ast.parse(source.text)` failed with `error` under the Python version `running`, in words for its author."""
    if isinstance(error, RecursionError | MemoryError):
        hint = "split the longest expressions into several statements, or leave the file out with --exclude"
        return UnreadableSource(NOT_PYTHON, "its code is nested too deeply for Python's parser", hint)
    if not isinstance(error, SyntaxError):
        hint = "see whether `python -m py_compile` accepts the file"
        return UnreadableSource(NOT_PYTHON, f"Python's parser rejects it: {error}", hint)
    lines = split_lines(source.text)
    return (
        _explain_conflict(lines)
        or _explain_python2(lines, error)
        or _explain_newer(lines, error, running)
        or _explain_plainly(error)
    )


def _explain_conflict(lines: list[str]) -> UnreadableSource | None:
    start = next((number for number, line in enumerate(lines, 1) if _CONFLICT_START.match(line)), None)
    if start is None or not any(_CONFLICT_END.match(line) for line in lines[start:]):
        return None
    return UnreadableSource(NOT_TEXT, "contains merge conflict markers", "resolve the conflict first", start)


def _explain_python2(lines: list[str], error: SyntaxError) -> UnreadableSource | None:
    # Python 2 took tabs and spaces mixed, so the construct that gives the file away may stand anywhere.
    numbers = range(1, len(lines) + 1) if isinstance(error, TabError) else [error.lineno or 1]
    for number in numbers:
        construct = python2_construct(_line(lines, number), error.msg)
        if construct:
            hint = "convert the file to Python 3 first (2to3 or pyupgrade can)"
            return UnreadableSource(PYTHON_2, f"is Python 2: {construct}", hint, number)
    return None


def _explain_newer(lines: list[str], error: SyntaxError, running: tuple[int, int]) -> UnreadableSource | None:
    newer = newer_syntax(_line(lines, error.lineno or 1), error.msg)
    if newer is None or newer.since <= running:
        return None
    needed = "{}.{}".format(*newer.since)
    message = f"{newer.construct} needs Python {needed}, and ampify runs on {running[0]}.{running[1]}"
    return UnreadableSource(NEWER_PYTHON, message, f"install ampify under Python {needed} or newer", error.lineno)


def _explain_plainly(error: SyntaxError) -> UnreadableSource:
    hint = "correct the syntax error, or leave the file out with --exclude"
    return UnreadableSource(NOT_PYTHON, f"does not parse: {error.msg}", hint, error.lineno)


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""
