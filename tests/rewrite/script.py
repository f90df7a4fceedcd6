"""A script under test: its nodes are addressed by their text, as `ast` sees them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ampify.gate import check
from ampify.index.extract import extract
from ampify.model.anchor import Anchor
from ampify.model.edit import AddElement, AddImport, Delete, Edit, InsertAfter, InsertBefore, Replace, Wrap
from ampify.model.source import SourceFile
from ampify.rewrite import rewrite
from ampify.source import decode_source, split_lines

PATH = "train.py"
HEADER = "with amp.scale_loss(loss, optimizer) as scaled_loss:"


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script, and edits of what stands in it."""

    text: str

    def source(self) -> SourceFile:
        return decode_source(self.text.encode(), PATH)

    def nodes(self) -> Iterator[tuple[ast.AST, Anchor]]:
        """All nodes that have a place, with their anchors, in the order of the text."""
        lines = split_lines(self.text)
        nodes = (node for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.stmt | ast.expr))
        found = [(node, anchor_of(node, lines)) for node in nodes]
        return iter(sorted(found, key=lambda entry: (entry[1].start, entry[1].end, entry[1].kind)))

    def code(self, anchor: Anchor) -> str:
        """The text that `anchor` covers."""
        lines = split_lines(self.text)
        starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
        return self.text[starts[anchor.line - 1] + anchor.column : starts[anchor.end_line - 1] + anchor.end_column]

    def statement(self, code: str, nth: int = 0) -> Anchor:
        """The `nth` statement that reads `code`, or, of a compound one, begins with it."""
        found = [
            anchor for node, anchor in self.nodes() if isinstance(node, ast.stmt) and self._begins(node, anchor, code)
        ]
        return found[nth]

    def expression(self, code: str, nth: int = 0) -> Anchor:
        """The `nth` expression that reads `code`."""
        nodes = self.nodes()
        return [anchor for node, anchor in nodes if isinstance(node, ast.expr) and self.code(anchor) == code][nth]

    def _begins(self, node: ast.stmt, anchor: Anchor, code: str) -> bool:
        text = self.code(anchor)
        return text.startswith(code) if hasattr(node, "body") else text == code

    def wrap(self, code: str, header: str = HEADER, nth: int = 0) -> Wrap:
        return Wrap(self.statement(code, nth), header)

    def before(self, code: str, new: str, nth: int = 0) -> InsertBefore:
        return InsertBefore(self.statement(code, nth), new)

    def after(self, code: str, new: str, nth: int = 0) -> InsertAfter:
        return InsertAfter(self.statement(code, nth), new)

    def delete(self, code: str, nth: int = 0) -> Delete:
        return Delete(self.statement(code, nth))

    def replace(self, code: str, new: str, nth: int = 0) -> Replace:
        return Replace(self.expression(code, nth), new)

    def add(self, code: str, new: str, nth: int = 0) -> AddElement:
        return AddElement(self.expression(code, nth), new)

    def edited(self, *edits: Edit) -> str:
        """The text with the edits made; it must parse and must not differ where no edit reaches."""
        result = rewrite(self.source(), edits)
        sections = extract(PATH, self.text).sections()
        assert rewrite(self.source(), edits, sections) == result, "an excerpt is edited like the whole"
        trouble = check(self.source(), result, edits)
        # Most scripts here are fragments, whose names nothing binds.
        assert trouble is None or "unbound" in trouble, f"{trouble}\n{result}"
        return result


def add_import(module: str = "ampify_runtime", name: str = "amp", asname: str | None = None) -> AddImport:
    return AddImport(PATH, module, name, asname)


def anchor_of(node: ast.stmt | ast.expr, lines: list[str]) -> Anchor:
    """The anchor of a node that has a place, with columns in characters."""

    def column(line: int, offset: int) -> int:
        return len(lines[line - 1].encode()[:offset].decode())

    end_line, end_offset = node.end_lineno, node.end_col_offset
    assert end_line is not None
    assert end_offset is not None
    start = column(node.lineno, node.col_offset)
    return Anchor(PATH, node.lineno, start, end_line, column(end_line, end_offset), type(node).__name__)
