"""Edits of expressions: new code in the place of old, with the parentheses that the place needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import libcst as cst

from ampify.model.anchor import Anchor
from ampify.rewrite.blocks import Statement
from ampify.rewrite.excerpt import excerpt
from ampify.rewrite.failure import RewriteFailed
from ampify.rewrite.splice import Span
from ampify.rewrite.tree import Tree, parse

_KINDS: Final[Mapping[str, tuple[type[cst.CSTNode], ...]]] = {
    "Attribute": (cst.Attribute,),
    "Await": (cst.Await,),
    "BinOp": (cst.BinaryOperation,),
    "BoolOp": (cst.BooleanOperation,),
    "Call": (cst.Call,),
    "Compare": (cst.Comparison,),
    "Constant": (cst.BaseNumber, cst.SimpleString, cst.ConcatenatedString, cst.Name, cst.Ellipsis),
    "Dict": (cst.Dict,),
    "DictComp": (cst.DictComp,),
    "GeneratorExp": (cst.GeneratorExp,),
    "IfExp": (cst.IfExp,),
    "JoinedStr": (cst.FormattedString, cst.ConcatenatedString),
    "Lambda": (cst.Lambda,),
    "List": (cst.List,),
    "ListComp": (cst.ListComp,),
    "Name": (cst.Name,),
    "NamedExpr": (cst.NamedExpr,),
    "Set": (cst.Set,),
    "SetComp": (cst.SetComp,),
    "Subscript": (cst.Subscript,),
    "Tuple": (cst.Tuple,),
    "UnaryOp": (cst.UnaryOperation,),
    "Yield": (cst.Yield,),
    "YieldFrom": (cst.Yield,),
}
# What stays one thing wherever it is put.
_ATOMS: Final = (
    cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.SimpleString, cst.FormattedString, cst.List, cst.Dict,
    cst.Set, cst.ListComp, cst.DictComp, cst.SetComp, cst.Ellipsis,
)  # fmt: skip
# What has to stand in parentheses of its own nearly everywhere.
_LOOSE: Final = (cst.Tuple, cst.NamedExpr, cst.Yield, cst.GeneratorExp)
# Places between commas, brackets or keywords, where any other expression can stand: parent and field.
_ROOMY: Final = (
    (cst.AnnAssign, "value"), (cst.Assign, "value"), (cst.AugAssign, "value"), (cst.Arg, "value"), (cst.Assert, "test"),
    (cst.DictElement, "key"), (cst.DictElement, "value"), (cst.Element, "value"), (cst.Expr, "value"), (cst.If, "test"),
    (cst.Index, "value"), (cst.Param, "default"), (cst.Return, "value"), (cst.While, "test"),
)  # fmt: skip
_JOINS: Final = re.compile(r"[\w\"']")


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression found in the tree. `span` is `ast`'s; `above` are the nodes it is a part of, the nearest first."""

    node: cst.BaseExpression
    above: tuple[cst.CSTNode, ...]
    span: Span

    @property
    def parent(self) -> cst.CSTNode:
        """The node it is a part of."""
        return self.above[0]


def find_expression(tree: Tree, statement: Statement, anchor: Anchor, span: Span) -> Expression:
    """The expression at `anchor`, which covers `span` in `statement`; raises RewriteFailed if none is there."""
    kinds = _KINDS.get(anchor.kind)
    if kinds is None:
        raise RewriteFailed(f"{anchor.kind} is not a kind of expression that can be edited (line {anchor.line})")
    for found in _expressions(tree, statement.node):
        if found.span == span and isinstance(found.node, kinds):
            return found
    raise RewriteFailed(f"there is no {anchor.kind} at line {anchor.line}, column {anchor.column}")


def replacement(tree: Tree, old: Expression, code: str) -> tuple[Span, str]:
    """What range becomes what text if the expression `old` becomes `code`."""
    new = _parsed(code)
    if _in_string(old) and re.search(r"[\"'\\\n]", code):
        raise RewriteFailed(f"{code!r} cannot stand in an f-string: Python before 3.12 would not read it")
    bare = old.span
    outer = _without_parentheses(tree, old, new)
    if outer is not None:
        return outer, _set_apart(tree.text, outer, code)
    if _needs_parentheses(old, new) or not _stands_alone(code):
        return bare, f"({code})"
    return bare, _set_apart(tree.text, bare, code)


def occurrences(code: str, part: str, before: str = "(", after: str = ")\n") -> list[Span]:
    """Where in `code` the expression `part` stands, letter for letter; offsets into `code`.

    `before` and `after` make `code` a statement; they do for an expression.
    """
    tree = parse(excerpt(before + code + after))
    spans = {tree.span(node) for node in tree.spans if isinstance(node, cst.BaseExpression)}
    size = len(before)
    return sorted((start - size, end - size) for start, end in spans if tree.text[start:end] == part)


def is_atom(code: str) -> bool:
    """Whether the expression `code` stays one thing wherever it is put."""
    new = _parsed(code)
    return bool(new.lpar) or isinstance(new, _ATOMS)


def _expressions(tree: Tree, top: cst.CSTNode) -> Iterator[Expression]:
    """All expressions of a statement, those of statements in its blocks left out."""
    waiting: list[tuple[cst.CSTNode, tuple[cst.CSTNode, ...]]] = [(top, ())]
    while waiting:
        node, above = waiting.pop()
        if isinstance(node, cst.BaseExpression):
            yield Expression(node, above, _ast_span(tree, node, above))
        waiting += [(part, (node, *above)) for part in node.children if not isinstance(part, cst.BaseSuite | cst.If)]


def _ast_span(tree: Tree, node: cst.BaseExpression, above: tuple[cst.CSTNode, ...]) -> Span:
    """The range of a node as `ast` has it: parentheses belong to tuples and to generators."""
    if not isinstance(node, cst.Tuple | cst.GeneratorExp):
        return tree.span(node)
    if node.lpar:
        return (tree.span(node.lpar[-1])[0], tree.span(node.rpar[0])[1])
    call = above[1] if len(above) > 1 else None
    if isinstance(node, cst.GeneratorExp) and isinstance(call, cst.Call):
        # The only argument of a call: it shares the call's parentheses.
        return (tree.span(call.whitespace_before_args)[0] - 1, tree.span(call)[1])
    return tree.span(node)


def _parsed(code: str) -> cst.BaseExpression:
    """The expression `code`, which may be one that needs parentheses around it."""
    try:
        inside = cst.parse_expression(f"({code})")
    except cst.ParserSyntaxError as error:
        raise RewriteFailed(f"new code {code!r} is no expression") from error
    # Without parentheses now, `code` closed ours and opened its own: "a) + (b".
    if not code or code != code.strip() or not inside.lpar:
        raise RewriteFailed(f"new code {code!r} is not just an expression")
    return inside.with_changes(lpar=inside.lpar[1:], rpar=inside.rpar[:-1])


def _stands_alone(code: str) -> bool:
    """Whether `code` is an expression without parentheses, too."""
    try:
        cst.parse_expression(code)
    except cst.ParserSyntaxError:
        return False
    return True


def _needs_parentheses(old: Expression, new: cst.BaseExpression) -> bool:
    if isinstance(old.node, cst.GeneratorExp) and not old.node.lpar:
        return True
    if new.lpar or isinstance(new, _ATOMS):
        return False
    # The range of these holds the innermost parentheses, so those go as well.
    own = 1 if isinstance(old.node, cst.Tuple | cst.GeneratorExp) else 0
    if len(old.node.lpar) > own:
        return False
    if isinstance(new, cst.BaseNumber):
        return isinstance(old.parent, cst.Attribute)
    return isinstance(new, _LOOSE) or not _is_roomy(old)


def _in_string(old: Expression) -> bool:
    return any(isinstance(node, cst.FormattedString) for node in old.above)


def _is_roomy(old: Expression) -> bool:
    if isinstance(old.parent, cst.Arg) and old.parent.star:
        return False
    return any(isinstance(old.parent, kind) and getattr(old.parent, name) is old.node for kind, name in _ROOMY)


def _without_parentheses(tree: Tree, old: Expression, new: cst.BaseExpression) -> Span | None:
    """The range with the parentheses around `old`, if only `old` needed them; they must hold nothing else."""
    node = old.node
    if isinstance(node, (*_ATOMS, cst.Tuple, cst.GeneratorExp)) or len(node.lpar) != 1 or not isinstance(new, _ATOMS):
        return None
    if new.lpar:
        return None
    outer = (tree.span(node.lpar[0])[0], tree.span(node.rpar[0])[1])
    between = tree.text[outer[0] + 1 : old.span[0]] + tree.text[old.span[1] : outer[1] - 1]
    return None if between.strip(" ") else outer


def _set_apart(text: str, span: Span, code: str) -> str:
    """`code` with a space where it would run into a neighbouring word."""
    before, after = text[: span[0]][-1:], text[span[1] :][:1]
    left = " " if _JOINS.match(before) and _JOINS.match(code) else ""
    right = " " if _JOINS.match(after) and _JOINS.match(code[-1]) else ""
    return f"{left}{code}{right}"
