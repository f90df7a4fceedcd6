"""A file as read from disk, with all that is needed to write it back byte for byte."""

from __future__ import annotations

from dataclasses import dataclass

from ampify.notebook import Notebook


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Decoded text of one file.

    `path` is the display path (as the user named it, `/` separators) and the file's identity through the pipeline.
    `text` keeps the original line ends and has no byte-order mark; `encoding` is a Python codec name that turns `text`
    back into `raw` (after `bom`). `newline` is the line end new lines get: the file's commonest, "\\n" if it has none.
    The `text` of a `notebook` is the program of its cells.
    """

    path: str
    raw: bytes
    text: str
    encoding: str
    bom: bytes
    newline: str
    notebook: Notebook | None = None

    def encode(self, text: str) -> bytes:
        """Bytes of this file if its text were `text`.

        Raises UnicodeEncodeError if the encoding lacks a character, ValueError if `text` is not in a notebook's cells.
        """
        if self.notebook is not None:
            before = self.raw[len(self.bom) :].decode(self.encoding)
            text = self.notebook.document(before, self.text, text)
        return self.bom + text.encode(self.encoding)
