"""Edits as data: what is to change, where, and new code as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ampify.model.anchor import Anchor

Applicability: TypeAlias = Literal["safe", "unsafe", "none"]


@dataclass(frozen=True, slots=True)
class Replace:
    """The expression at `anchor` becomes the expression `code`."""

    anchor: Anchor
    code: str


@dataclass(frozen=True, slots=True)
class InsertBefore:
    """The statements `code` go before the statement at `anchor`, in its block, at its indentation.

    `code` is dedented, uses "\\n" and four spaces a level; the rewriter gives it the file's line ends and indentation.
    """

    anchor: Anchor
    code: str


@dataclass(frozen=True, slots=True)
class InsertAfter:
    """The statements `code` go after the statement at `anchor`; as `InsertBefore` otherwise."""

    anchor: Anchor
    code: str


@dataclass(frozen=True, slots=True)
class Wrap:
    """The statement at `anchor` moves, with its comments, into the body of `header` (such as `with x as y:`); so do
    those that follow it in its block, up to the one at `last`.

    Edits inside the statements are applied to them as well, wherever they end up.
    """

    anchor: Anchor
    header: str
    last: Anchor | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """The statement at `anchor` goes; a block left empty gets `pass`."""

    anchor: Anchor


@dataclass(frozen=True, slots=True)
class AddElement:
    """`code` becomes the last element of the dict, list, tuple or call at `anchor`, laid out as its neighbours are.

    For a dict `code` is `key: value`, for a call a positional or keyword argument.
    """

    anchor: Anchor
    code: str


@dataclass(frozen=True, slots=True)
class AddParameter:
    """The function defined by the statement at `anchor` gets a parameter `name`: the last by position, or, where others
    have defaults or are starred, one by keyword alone."""

    anchor: Anchor
    name: str


@dataclass(frozen=True, slots=True)
class AddDecorator:
    """The function defined by the statement at `anchor` gets `@code` as its innermost decorator."""

    anchor: Anchor
    code: str


@dataclass(frozen=True, slots=True)
class AddImport:
    """`from module import name [as asname]` among the file's top-level imports, unless it is there already; `import
    module` where there is no name."""

    path: str
    module: str
    name: str | None = None
    asname: str | None = None

    @property
    def bound(self) -> str:
        """The name the import binds."""
        return self.asname or self.name or self.module


@dataclass(frozen=True, slots=True)
class EditLines:
    """In a file that is not Python, `count` lines from 1-based `line` on become `text` (complete lines, "\\n" ends).

    `count` 0 inserts before `line`; `line` one past the last appends.
    """

    path: str
    line: int
    count: int
    text: str


Edit: TypeAlias = (
    Replace
    | InsertBefore
    | InsertAfter
    | Wrap
    | Delete
    | AddElement
    | AddParameter
    | AddDecorator
    | AddImport
    | EditLines
)


def edited_path(edit: Edit) -> str:
    """The file that an edit changes."""
    if isinstance(edit, AddImport | EditLines):
        return edit.path
    return edit.anchor.path


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that belong together. `group` is the id of the training loop; a group is applied whole or not at all.

    `caution` says of an unsafe fix, in a few words, what it changes.
    """

    edits: tuple[Edit, ...]
    applicability: Applicability = "safe"
    group: str | None = None
    caution: str = ""
