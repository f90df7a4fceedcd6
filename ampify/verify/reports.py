"""Chooses the writer of a verification's report by the name of its format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ampify.verify.document import json_verification
from ampify.verify.markdown import markdown_verification
from ampify.verify.page.document import html_verification
from ampify.verify.session import Verification
from ampify.verify.text import text_verification

_WRITERS: Mapping[str, Callable[[Verification], str]] = {
    "json": json_verification,
    "markdown": markdown_verification,
    "html": html_verification,
}
FORMS = ("text", *_WRITERS)
_ENDINGS: Mapping[str, str] = {".json": "json", ".md": "markdown", ".html": "html"}


class UnknownReport(Exception):
    """A report file whose ending names no format; the message says which and what to do."""


def written(verification: Verification, form: str, *, colour: bool = False) -> str:
    """The report in one of `FORMS`; colours are for text alone."""
    return text_verification(verification, colour=colour) if form == "text" else _WRITERS[form](verification)


def report_form(path: Path) -> str:
    """The format that the ending of `path` names. Raises UnknownReport."""
    form = _ENDINGS.get(path.suffix)
    if form is None:
        raise UnknownReport(f"--report {path}: the ending {path.suffix!r} names no format; use {', '.join(_ENDINGS)}")
    return form
