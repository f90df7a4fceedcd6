"""Reads one file's facts, or the finding that tells why it has none."""

from __future__ import annotations

from ampify.index.extract import extract
from ampify.model.anchor import line_anchor
from ampify.model.facts import FileFacts
from ampify.model.finding import Finding
from ampify.model.source import SourceFile
from ampify.source import explain_syntax_error


def read_facts(source: SourceFile, *, last: bool = False) -> FileFacts | Finding:
    """The facts of a file, or the finding on it; raises RecursionError where more room on the stack may help, unless
    this is the `last` attempt."""
    try:
        return extract(source.path, source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, RecursionError) and not last:
            raise
        reason = explain_syntax_error(source, error)
        where = line_anchor(source.path, reason.line or 1)
        return Finding(reason.code, reason.name, where, reason.message, reason.hint, refuses=True)
