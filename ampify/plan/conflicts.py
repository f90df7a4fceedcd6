"""Which edits cannot be made together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ampify.model.anchor import Anchor
from ampify.model.edit import (
    AddElement,
    AddImport,
    Delete,
    Edit,
    EditLines,
    Replace,
    Wrap,
    edited_path,
)


@dataclass(slots=True)
class Accepted:
    """Edits that go together so far, by file, each once."""

    by_path: dict[str, dict[Edit, None]] = field(default_factory=dict)

    def clash(self, edits: Iterable[Edit]) -> tuple[Edit, Edit] | None:
        """Takes the edits in, unless one cannot be made beside another of them or an accepted one: that pair."""
        added: dict[str, dict[Edit, None]] = {}
        for edit in edits:
            path = edited_path(edit)
            for other in (*self.by_path.get(path, ()), *added.get(path, ())):
                if clash(edit, other):
                    return edit, other
            added.setdefault(path, {})[edit] = None
        for path, new in added.items():
            self.by_path.setdefault(path, {}).update(new)
        return None


def clash(one: Edit, other: Edit) -> bool:
    """Whether two edits of one file cannot both be made. Equal edits are one edit."""
    if one == other:
        return False
    if isinstance(one, AddImport) or isinstance(other, AddImport):
        return isinstance(one, AddImport) and isinstance(other, AddImport) and one.bound == other.bound
    if isinstance(one, EditLines) or isinstance(other, EditLines):
        return isinstance(one, EditLines) and isinstance(other, EditLines) and _lines_clash(one, other)
    if isinstance(one, Wrap) and isinstance(other, Wrap) and one.anchor == other.anchor:
        return True
    return _consumes(one, other) or _consumes(other, one)


def edit_anchor(edit: Edit) -> Anchor | None:
    """The node an edit is bound to; None for an import and for lines."""
    return None if isinstance(edit, AddImport | EditLines) else edit.anchor


def _consumes(one: Edit, other: Edit) -> bool:
    """Whether the text that `other` is bound to is gone once `one` is made."""
    if not isinstance(one, Replace | Delete) or isinstance(other, AddImport | EditLines):
        return False
    if (one.anchor.start, one.anchor.end) == (other.anchor.start, other.anchor.end):
        return isinstance(other, Replace | AddElement | Delete) or (isinstance(one, Delete) and isinstance(other, Wrap))
    return one.anchor.contains(other.anchor)


def _lines_clash(one: EditLines, other: EditLines) -> bool:
    first, second = sorted((one, other), key=lambda edit: (edit.line, edit.count))
    return second.line < first.line + first.count
