"""Names the formats of a verification's report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ampify.verify.problem import VerifyProblem

FORMS = ("text", "json", "markdown", "html")
_ENDINGS: Mapping[str, str] = {".json": "json", ".md": "markdown", ".html": "html"}


class UnknownReport(VerifyProblem):
    """A report file whose ending names no format; the message says which and what to do."""


def report_form(path: Path) -> str:
    """The format that the ending of `path` names. Raises UnknownReport."""
    form = _ENDINGS.get(path.suffix)
    if form is None:
        raise UnknownReport(f"--report {path}: the ending {path.suffix!r} names no format; use {', '.join(_ENDINGS)}")
    return form
