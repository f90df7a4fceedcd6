"""From the bytes of a file to its text, and the words for what bars the way."""

from ampify.source.explanation import explain_syntax_error
from ampify.source.failure import UnreadableSource
from ampify.source.lines import split_lines
from ampify.source.reading import decode_source, read_bytes, read_source
from ampify.source.repair import Repaired, repaired

__all__ = [
    "Repaired",
    "UnreadableSource",
    "decode_source",
    "explain_syntax_error",
    "read_bytes",
    "read_source",
    "repaired",
    "split_lines",
]
