"""What bars a file from being analysed, as a typed error with a stable code."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NOT_READABLE: Final = "AMP001"
NOT_DECODABLE: Final = "AMP002"
NOT_PYTHON: Final = "AMP003"
NEWER_PYTHON: Final = "AMP004"
PYTHON_2: Final = "AMP005"
NOT_TEXT: Final = "AMP006"

# The names of the rules that document the codes.
UNREADABLE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        NOT_READABLE: "unreadable-file",
        NOT_DECODABLE: "undecodable-file",
        NOT_PYTHON: "syntax-error",
        NEWER_PYTHON: "newer-syntax",
        PYTHON_2: "python-2-syntax",
        NOT_TEXT: "not-a-source-file",
    }
)


class UnreadableSource(Exception):
    """A file that cannot be analysed: a stable code, what is wrong, what to do, and the line where known."""

    def __init__(self, code: str, message: str, hint: str, line: int | None = None) -> None:
        super().__init__(code, message, hint, line)
        self.code = code
        self.message = message
        self.hint = hint
        self.line = line

    @property
    def name(self) -> str:
        """The name of the rule that documents the code."""
        return UNREADABLE_NAMES[self.code]

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{self.code} {where}{self.message} ({self.hint})"
