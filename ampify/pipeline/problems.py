"""What can stop a whole run, and the words for it."""

from __future__ import annotations

from ampify.config import InvalidOption
from ampify.pipeline.reading import MissingPath
from ampify.rules import RuleFailed
from ampify.vendor import VendorConflict
from ampify.write import WriteError

# Each says what, where and what to do.
PROBLEMS: tuple[type[Exception], ...] = (InvalidOption, MissingPath, VendorConflict, WriteError)


def describe(failure: Exception) -> str:
    """An internal failure in one line: where, what kind, and what it said."""
    if isinstance(failure, RuleFailed) and failure.__cause__ is not None:
        return f"rule {failure.code}: {_one_line(failure.__cause__)}"
    return _one_line(failure)


def _one_line(failure: BaseException) -> str:
    return " ".join(f"{type(failure).__name__}: {failure}".split())
