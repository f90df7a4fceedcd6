"""Where new imports go: into the header of the module, beside those of torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from ampify.model.edit import AddImport
from ampify.rewrite.splice import AFTER, BEFORE, Span, Splice
from ampify.rewrite.tree import Tree


@dataclass(frozen=True, slots=True)
class Header:
    """What the placing of imports depends on: the tree, and what other edits touch (ranges) or delete (statements)."""

    tree: Tree
    newline: str
    touched: Sequence[Span]
    deleted: Sequence[Span]

    def splices(self, imports: Sequence[AddImport]) -> Iterator[Splice]:
        """The change that adds those of `imports` that are not there yet, each once and in the order given."""
        missing = [wanted for wanted in dict.fromkeys(imports) if not self._is_there(wanted)]
        if missing:
            yield self._insertion([_statement(wanted) for wanted in missing], {wanted.bound for wanted in missing})

    def _is_there(self, wanted: AddImport) -> bool:
        """Whether the module imports just this already, before anything that is edited could use it."""
        for line in self.tree.module.body:
            span = self._span(line)
            if self._is_touched(span) and not self._is_deleted(span):
                return False
            if isinstance(line, cst.SimpleStatementLine) and not self._is_deleted(span):
                found = (part for part in line.body if isinstance(part, cst.Import | cst.ImportFrom))
                if any(_imports(part, wanted) for part in found):
                    return True
        return False

    def _insertion(self, statements: Sequence[str], names: set[str]) -> Splice:
        above = self._anchor(names)
        lines = "".join(statement + self.newline for statement in statements)
        if above is None:
            lines += self.newline * self._room()
        place = self._first_place() if above is None else self.tree.line_end(self._span(above)[1] - 1)
        if place == len(self.tree.text) and self.tree.text and not self.tree.text.endswith(("\n", "\r")):
            lines = self.newline + lines.removesuffix(self.newline)
        return Splice(place, place, lines, BEFORE if above is None else AFTER)

    def _anchor(self, names: set[str]) -> cst.SimpleStatementLine | None:
        """The line of the header that the imports follow: that of torch, else the last import, else the docstring's.

        A later `from x import *` might bind the same name again, so they follow that as well.
        """
        opening = torch = other = None
        for line in self._header(names):
            if _is_docstring_or_future(line):
                opening = line
            for part in line.body:
                if isinstance(part, cst.Import | cst.ImportFrom):
                    other = line
                    torch = line if _is_of_torch(part) or (torch and _is_star(part)) else torch
        return torch or other or opening

    def _header(self, names: set[str]) -> Iterator[cst.SimpleStatementLine]:
        """The simple lines at the top of the module up to the first code that could use an import."""
        bound: set[str] = set()
        word = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b")
        for node in self.tree.module.body:
            start, end = self._span(node)
            imports = isinstance(node, cst.SimpleStatementLine) and all(_is_import(part) for part in node.body)
            if self._is_touched((start, end)) and not self._is_deleted((start, end)):
                return
            if not imports and word.search(self.tree.text, start, end):
                return
            if isinstance(node, cst.SimpleStatementLine):
                if not all(_may_stand_between(part, bound) for part in node.body):
                    return
                yield node
            elif not _only_chooses_imports(node):
                return
            bound |= _roots_imported(node)

    def _first_place(self) -> int:
        """Where code can begin: right before the first statement, after the comments at the top."""
        body = self.tree.module.body
        if not body:
            return len(self.tree.text)
        start, _ = self._span(body[0])
        return self.tree.line_start(start)

    def _room(self) -> int:
        """How many empty lines part imports from the first statement: two before a definition, by PEP 8."""
        body = self.tree.module.body
        return 2 if body and isinstance(body[0], cst.FunctionDef | cst.ClassDef) else 0

    def _span(self, node: cst.CSTNode) -> Span:
        start, end = self.tree.span(node)
        decorators = node.decorators if isinstance(node, cst.FunctionDef | cst.ClassDef) else ()
        return (self.tree.span(decorators[0])[0] if decorators else start, end)

    def _is_touched(self, span: Span) -> bool:
        return any(span[0] <= start <= span[1] for start, _ in self.touched)

    def _is_deleted(self, span: Span) -> bool:
        return span in self.deleted


def _statement(wanted: AddImport) -> str:
    if wanted.name is None:
        return f"import {wanted.module}"
    alias = f" as {wanted.asname}" if wanted.asname else ""
    return f"from {wanted.module} import {wanted.name}{alias}"


def _imports(part: cst.Import | cst.ImportFrom, wanted: AddImport) -> bool:
    """Whether `part` is the import that is wanted, among others perhaps."""
    if isinstance(part, cst.Import):
        return wanted.name is None and any(
            alias.evaluated_name == wanted.module and alias.asname is None for alias in part.names
        )
    if isinstance(part.names, cst.ImportStar) or _module(part) != wanted.module:
        return False
    return any(
        alias.evaluated_name == wanted.name and (alias.evaluated_alias or None) == wanted.asname for alias in part.names
    )


def _module(part: cst.ImportFrom) -> str:
    """The module's dotted name, with the dots of a relative import."""
    name = "" if part.module is None else cst.Module([]).code_for_node(part.module)
    return "." * len(part.relative) + name


def _is_import(part: cst.CSTNode) -> bool:
    return isinstance(part, cst.Import | cst.ImportFrom)


def _is_star(part: cst.Import | cst.ImportFrom) -> bool:
    return isinstance(part, cst.ImportFrom) and isinstance(part.names, cst.ImportStar)


def _is_of_torch(part: cst.Import | cst.ImportFrom) -> bool:
    if isinstance(part, cst.ImportFrom):
        return _module(part).split(".")[0] == "torch"
    return any(alias.evaluated_name.split(".")[0] == "torch" for alias in part.names)


def _is_docstring_or_future(line: cst.SimpleStatementLine) -> bool:
    return any(
        _is_string(part) or (isinstance(part, cst.ImportFrom) and _module(part) == "__future__") for part in line.body
    )


def _is_string(part: cst.CSTNode) -> bool:
    return isinstance(part, cst.Expr) and isinstance(part.value, cst.SimpleString | cst.ConcatenatedString)


def _may_stand_between(part: cst.BaseSmallStatement, bound: set[str]) -> bool:
    """Whether a statement belongs to a header: imports, constants, and settings of modules imported above."""
    if isinstance(part, cst.Import | cst.ImportFrom | cst.Pass) or _is_string(part):
        return True
    if isinstance(part, cst.Assign | cst.AnnAssign):
        return not any(_calls(part.value)) if part.value else True
    if isinstance(part, cst.Expr) and isinstance(part.value, cst.Call):
        return _root(part.value.func) in bound
    return False


def _calls(node: cst.CSTNode) -> Iterator[cst.Call]:
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, cst.Call):
            yield part
        waiting += part.children


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def _only_chooses_imports(node: cst.CSTNode) -> bool:
    """Whether a compound statement is there to import: `try: import x`, `if TYPE_CHECKING: ...`."""
    if not isinstance(node, cst.Try | cst.If):
        return False
    parts = [
        part for line in node.body.body for part in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])
    ]
    return any(_is_import(part) for part in parts)


def _roots_imported(node: cst.CSTNode) -> set[str]:
    """The names that the imports of a line bind."""
    bound: set[str] = set()
    parts = node.body if isinstance(node, cst.SimpleStatementLine) else ()
    for part in parts:
        if isinstance(part, cst.Import | cst.ImportFrom) and not isinstance(part.names, cst.ImportStar):
            bound |= {alias.evaluated_alias or alias.evaluated_name.split(".")[0] for alias in part.names}
    return bound
