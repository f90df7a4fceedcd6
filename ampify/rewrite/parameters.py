"""Adds a parameter to a function, where every call that is given one argument more still means what it did."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ampify.rewrite.failure import RewriteFailed
from ampify.rewrite.splice import Splice
from ampify.rewrite.tree import Tree


def with_parameter(tree: Tree, node: cst.CSTNode, name: str) -> Iterator[Splice]:
    """The change that gives the function `node` a parameter `name`; raises RewriteFailed if it is no function."""
    if not isinstance(node, cst.FunctionDef):
        raise RewriteFailed(f"a {type(node).__name__} takes no parameter {name!r}")
    parameters = node.params
    positional = [*parameters.posonly_params, *parameters.params]
    star = parameters.star_arg
    starred = isinstance(star, cst.Param | cst.ParamStar)
    if not positional and not starred:
        place = tree.span(node.whitespace_before_params)[0]
        follows = ", " if parameters.star_kwarg is not None else ""
        yield Splice(place, place, f"{name}{follows}" if not follows else f"*, {name}{follows}")
        return
    last = _last(positional, parameters)
    place = tree.span(last)[1]
    by_keyword = starred or any(parameter.default is not None for parameter in positional)
    marker = "" if starred or not by_keyword else "*, "
    yield Splice(place, place, f", {marker}{name}")


def _last(positional: list[cst.Param], parameters: cst.Parameters) -> cst.CSTNode:
    """The parameter that a new one follows."""
    if parameters.kwonly_params:
        return parameters.kwonly_params[-1]
    if isinstance(parameters.star_arg, cst.Param):
        return parameters.star_arg
    return positional[-1]
