"""Clipping functions of torch that a program calls by another name than their own: kept in a variable, a field or a
dict, handed on, or with some arguments filled in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ampify import catalog
from ampify.index.flow import Flow
from ampify.index.syntax import in_order, nodes
from ampify.index.values import External, Partial, Text, Value, Values
from ampify.model import facts as f


def has_renamed_clips(flow: Flow) -> bool:
    """Whether a file takes a clipping function without calling it, or asks for one by a text."""
    return any(map(_takes_clip, flow.files.values())) or any(flow.make.has_made(Text, name) for name in catalog.CLIPS)


def is_clip(callee: Value) -> bool:
    """Whether calling a value is calling a clipping function of torch."""
    while isinstance(callee, Partial):
        callee = callee.of
    return isinstance(callee, External) and callee.dotted.rpartition(".")[2] in catalog.CLIPS


def kept_parameters(flow: Flow, callee: Value) -> Values | None:
    """The parameters that were filled in already, None if the call is to name them."""
    if not isinstance(callee, Partial):
        return None
    positional, keywords = flow.calls.kept(callee)
    return positional[0] if positional else keywords.get("parameters")


def _takes_clip(facts: f.FileFacts) -> bool:
    if not facts.read & catalog.CLIPS:
        return False
    bound = {n.bound for statement in facts.imports for n in statement.names if n.attribute in catalog.CLIPS}
    names = catalog.CLIPS | bound
    return any(name in names for scope in facts.scopes for name in _taken(scope))


def _taken(scope: f.Scope) -> Iterator[str]:
    """Names and attributes that a scope reads and does not call."""
    defaults = (node for p in scope.parameters if p.default is not None for node in in_order(p.default))
    for node, parents in chain(nodes(scope.body), defaults):
        call = parents[-1] if parents else None
        if not (isinstance(call, f.Call) and call.func is node):
            if isinstance(node, f.Name):
                yield node.id
            elif isinstance(node, f.Attribute):
                yield node.attr
