"""Adds a decorator to a function."""

from __future__ import annotations

import libcst as cst

from ampify.rewrite.failure import RewriteFailed
from ampify.rewrite.splice import Splice
from ampify.rewrite.tree import Tree


def with_decorator(tree: Tree, node: cst.CSTNode, code: str, newline: str) -> Splice:
    """The change that gives the function `node` the innermost decorator `code`; raises RewriteFailed if it is no
    function on lines of its own."""
    start = tree.span(node)[0]
    indentation = tree.text[tree.text.rfind("\n", 0, start) + 1 : start]
    if not isinstance(node, cst.FunctionDef) or indentation.strip():
        raise RewriteFailed(f"a {type(node).__name__} takes no decorator {code!r} here")
    return Splice(start, start, f"@{code}{newline}{indentation}")
