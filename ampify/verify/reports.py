"""Chooses the writer of a verification's report by the name of its format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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


def written(verification: Verification, form: str, *, colour: bool = False) -> str:
    """The report in one of the formats that `forms` names; colours are for text alone."""
    return text_verification(verification, colour=colour) if form == "text" else _WRITERS[form](verification)
