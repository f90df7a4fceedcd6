"""A file as read from disk, with all that is needed to write it back byte for byte."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Decoded text of one file.

    `path` is the display path (as the user named it, `/` separators) and the file's identity through the pipeline.
    `text` keeps the original line ends and has no byte-order mark; `encoding` is a Python codec name that turns `text`
    back into `raw` (after `bom`). `newline` is the line end new lines get: the file's commonest, "\\n" if it has none.
    """

    path: str
    raw: bytes
    text: str
    encoding: str
    bom: bytes
    newline: str

    def encode(self, text: str) -> bytes:
        """Bytes of this file if its text were `text`; raises UnicodeEncodeError if the encoding lacks a character."""
        return self.bom + text.encode(self.encoding)
