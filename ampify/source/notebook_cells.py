"""Reads a notebook as the program of its cells."""

from __future__ import annotations

import codecs
from typing import Final

from ampify.model.source import SourceFile
from ampify.notebook import BrokenNotebook, read_notebook
from ampify.source.failure import NOT_DECODABLE, NOT_TEXT, UnreadableSource

SUFFIX: Final = ".ipynb"


def decode_notebook(raw: bytes, display: str) -> SourceFile:
    """The program of the notebook whose bytes are `raw`; raises UnreadableSource."""
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    try:
        notebook, program = read_notebook(raw[len(bom) :].decode("utf-8"))
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UnreadableSource(
            NOT_DECODABLE, f"is not utf-8 text: {error.reason}", "save it with Jupyter", line
        ) from error
    except BrokenNotebook as broken:
        raise UnreadableSource(NOT_TEXT, broken.message, broken.hint, broken.line) from broken
    newline = "\r\n" if program.count("\r\n") * 2 > program.count("\n") else "\n"
    return SourceFile(display, raw, program, "utf-8", bom, newline, notebook)
