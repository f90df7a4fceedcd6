"""Functions of torch that a program takes without calling them: kept in a variable, a field or a dict, handed on, or
with some arguments filled in. What calls them then has another name."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import chain
from typing import TYPE_CHECKING

from ampify.index.syntax import in_order, is_called, nodes
from ampify.index.values import Partial, Text, Value
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.flow import Flow


def takes(flow: Flow, functions: Set[str]) -> bool:
    """Whether a file takes one of these functions without calling it, or asks for one by a text."""
    return any(_takes(facts, functions) for facts in flow.files.values()) or any(
        flow.make.has_made(Text, name) for name in functions
    )


def filled(callee: Value) -> Value:
    """What a call calls in the end, whatever arguments were filled in before."""
    while isinstance(callee, Partial):
        callee = callee.of
    return callee


def _takes(facts: f.FileFacts, functions: Set[str]) -> bool:
    if not facts.read & functions:
        return False
    bound = {n.bound for statement in facts.imports for n in statement.names if n.attribute in functions}
    names = functions | bound
    return any(name in names for scope in facts.scopes for name in _taken(scope))


def _taken(scope: f.Scope) -> Iterator[str]:
    """Names and attributes that a scope reads and does not call."""
    defaults = (node for p in scope.parameters if p.default is not None for node in in_order(p.default))
    for node, parents in chain(nodes(scope.body), defaults):
        if not is_called(node, parents):
            if isinstance(node, f.Name):
                yield node.id
            elif isinstance(node, f.Attribute):
                yield node.attr
