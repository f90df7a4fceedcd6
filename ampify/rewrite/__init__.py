"""The codemod: edits as data become new text. LibCST, slow to import, is loaded with the first Python file."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from ampify.model.edit import Edit, edited_path
from ampify.model.section import Section
from ampify.model.source import SourceFile
from ampify.rewrite.failure import NestsDeeply, RewriteFailed
from ampify.rewrite.plain import rewrite_lines

__all__ = ["NestsDeeply", "RewriteFailed", "load_editor", "rewrite", "rewrite_lines"]


def load_editor() -> None:
    """Loads LibCST, for processes that start as copies of this one."""
    import_module("ampify.rewrite.codemod")


def rewrite(
    source: SourceFile, edits: Sequence[Edit], sections: Sequence[Section] = (), *, shallow: bool = False
) -> str:
    """The text of the Python file `source` with all `edits` made; every other character is kept.

    Of the file's `sections`, if they are known, only those that the edits concern are read with LibCST.

    Raises RewriteFailed if an edit does not fit the text, if edits contradict each other, or if LibCST cannot read it;
    with `shallow`, NestsDeeply where LibCST would need more than the ordinary room on the stack.
    """
    strangers = [edit for edit in edits if edited_path(edit) != source.path]
    if strangers:
        raise RewriteFailed(f"an edit of {edited_path(strangers[0])} was given for {source.path}")
    if not edits:
        return source.text
    from ampify.rewrite.codemod import edited

    return edited(source, edits, sections, shallow=shallow)
