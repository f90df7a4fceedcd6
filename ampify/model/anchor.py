"""Where in a file something stands."""

from __future__ import annotations

from dataclasses import dataclass

# Statements that hold other statements: what is said of one is not said of all that is inside it.
COMPOUND_KINDS = frozenset(
    "For AsyncFor While If With AsyncWith Try TryStar Match FunctionDef AsyncFunctionDef ClassDef".split()
)


@dataclass(frozen=True, slots=True, order=True)
class Anchor:
    """Addresses one syntax node: its file, its `ast` class name and its range.

    Lines are 1-based, columns 0-based, both counted in characters of the decoded text (not in bytes). `end` is
    exclusive. The range is `ast`'s: parentheses around an expression are outside it. `kind` is the class name of the
    node in `ast` ("Call", "Expr", "Assign", ...); for a place that is no node, such as a line of a requirements file,
    it is "line".
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    kind: str

    @property
    def start(self) -> tuple[int, int]:
        """Line and column of the first character."""
        return (self.line, self.column)

    @property
    def end(self) -> tuple[int, int]:
        """Line and column just past the last character."""
        return (self.end_line, self.end_column)

    @property
    def compound(self) -> bool:
        """Whether this is a statement that holds other statements."""
        return self.kind in COMPOUND_KINDS

    def line_seen_from(self, path: str) -> str:
        """The line, with its file where that is another one than `path`: for messages."""
        return f"{self.line}" if self.path == path else f"{self.line} of {self.path}"

    def contains(self, other: Anchor) -> bool:
        """Whether `other` lies within this range of the same file."""
        return self.path == other.path and self.start <= other.start and other.end <= self.end


def line_anchor(path: str, line: int) -> Anchor:
    """An anchor for a whole line that is no syntax node."""
    return Anchor(path, line, 0, line, 0, "line")
