"""Says why rewritten text is unacceptable: it does not parse, breaks names, or differs outside the edits."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

from ampify.gate.names import name_trouble
from ampify.gate.text import text_trouble
from ampify.model.edit import Edit
from ampify.model.source import SourceFile

_Result = TypeVar("_Result")


def check(before: SourceFile, after: str, edits: Sequence[Edit]) -> str | None:
    """Why `after` cannot take the place of `before.text`, given that `edits` were to be made; None if it can."""
    old = _parsed(before.text)
    if isinstance(old, str):
        return f"the original does not parse: {old}"
    new = _parsed(after)
    if isinstance(new, str):
        return f"the result does not parse: {new}"
    try:
        before.encode(after)
    except UnicodeEncodeError as error:
        return f"the file's encoding, {before.encoding}, has no {after[error.start : error.end]!r}"
    try:
        return (
            text_trouble(before.text, old, after, edits)
            or _compiler_trouble(before.text, after)
            or name_trouble(old, new, edits)
        )
    except RecursionError:
        return "its code nests too deeply to be checked"


def _parsed(text: str) -> ast.Module | str:
    """The module, or why there is none."""
    return _attempted(lambda: ast.parse(text))


def _compiler_trouble(before: str, after: str) -> str | None:
    """What the compiler, stricter than the parser, has against `after` and had not against `before`."""
    found = _attempted(lambda: _compile(after))
    return f"the result does not compile: {found}" if found and not _attempted(lambda: _compile(before)) else None


def _compile(text: str) -> None:
    compile(text, "<rewritten>", "exec", dont_inherit=True)


def _attempted(read: Callable[[], _Result]) -> _Result | str:
    """What `read` returns, or what Python has against the text that it reads."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
