"""Reads a file and decodes it so that its bytes can be had back."""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from pathlib import Path
from typing import Final

from ampify.model.source import SourceFile
from ampify.source.failure import NOT_DECODABLE, NOT_READABLE, NOT_TEXT, UnreadableSource
from ampify.source.notebook_cells import SUFFIX, decode_notebook

_WIDE_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
# A declaration of the encoding stands in one of the first two lines.
_FIRST_TWO: Final = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)?[^\r\n]*")


def read_source(path: Path, display: str) -> SourceFile:
    """The file at `path`, to be known as `display`; raises UnreadableSource."""
    return decode_source(read_bytes(path), display)


def read_bytes(path: Path) -> bytes:
    """The content of the file at `path`; raises UnreadableSource instead of OSError."""
    if path.is_fifo():  # reading would wait for a writer, and writing would put a file in its place
        hint = "give its content to ampify on standard input, as `ampify -`"
        raise UnreadableSource(NOT_READABLE, "is a named pipe, not a file", hint)
    try:
        return path.read_bytes()
    except PermissionError as error:
        hint = "give yourself read permission, or leave the file out with --exclude"
        raise UnreadableSource(NOT_READABLE, f"may not be read: {error.strerror}", hint) from error
    except OSError as error:
        hint = "check that it is a file and still there"
        raise UnreadableSource(NOT_READABLE, f"cannot be read: {error.strerror or error}", hint) from error


def decode_source(raw: bytes, display: str) -> SourceFile:
    """The text of `raw`, decoded as Python does (PEP 263), or as a notebook; raises UnreadableSource."""
    if display.lower().endswith(SUFFIX):
        return decode_notebook(raw, display)
    _refuse_binary(raw)
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    encoding = _declared_encoding(raw)
    text = _decode(raw[len(bom) :], encoding)
    return SourceFile(display, raw, text, encoding, bom, _commonest_line_end(text))


def _refuse_binary(raw: bytes) -> None:
    for mark, name in _WIDE_MARKS:
        if raw.startswith(mark):
            raise UnreadableSource(NOT_DECODABLE, f"is {name} text, which Python does not run", "save it as UTF-8")
    place = raw.find(b"\0")
    if place >= 0:
        hint = "remove the NUL bytes, or leave the file out with --exclude if it is no Python source"
        raise UnreadableSource(NOT_TEXT, "contains NUL bytes", hint, _line_of(raw, place))


def _declared_encoding(raw: bytes) -> str:
    """The name of the codec the file asks for; "utf-8" for UTF-8 with a byte-order mark."""
    head = _FIRST_TWO.match(raw)
    if head is None or b"coding" not in head[0]:
        return "utf-8"
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(_with_plain_line_ends(head[0])).readline)
    except SyntaxError as error:
        # Without a declaration the same error stands for bytes that are not UTF-8: `_decode` names their line.
        if "invalid or missing encoding" in str(error):
            return "utf-8"
        hint = "correct the `coding:` comment in the first two lines"
        raise UnreadableSource(NOT_DECODABLE, f"declares an encoding Python rejects: {error}", hint, 1) from error
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _with_plain_line_ends(raw: bytes) -> bytes:
    # `detect_encoding` reads two lines and knows "\n" only.
    return raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _decode(raw: bytes, encoding: str) -> str:
    hint = "save the file as UTF-8, or name its real encoding in a `coding:` comment on the first line"
    try:
        text = raw.decode(encoding)
        # What is strictly UTF-8 is so in one way.
        survives = encoding == "utf-8" or text.encode(encoding) == raw
    except UnicodeDecodeError as error:
        message = f"is not {encoding} text: {error.reason}"
        raise UnreadableSource(NOT_DECODABLE, message, hint, _line_of(raw, error.start)) from error
    except (LookupError, UnicodeError, ValueError) as error:
        raise UnreadableSource(NOT_DECODABLE, f"is not text in {encoding}: {error}", hint, 1) from error
    if not survives:
        raise UnreadableSource(NOT_DECODABLE, f"cannot be written back unchanged in {encoding}", hint, 1)
    return text


def _commonest_line_end(text: str) -> str:
    both = text.count("\r\n")
    counts = {"\n": text.count("\n") - both, "\r\n": both, "\r": text.count("\r") - both}
    return max(counts, key=counts.__getitem__)


def _line_of(raw: bytes, place: int) -> int:
    return _with_plain_line_ends(raw[:place]).count(b"\n") + 1
