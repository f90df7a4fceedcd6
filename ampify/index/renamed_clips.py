"""Clipping functions of torch that a program calls by another name than their own."""

from __future__ import annotations

from ampify import catalog
from ampify.index.flow import Flow
from ampify.index.renamed import filled
from ampify.index.values import External, Partial, Value, Values


def is_clip(callee: Value) -> bool:
    """Whether calling a value is calling a clipping function of torch."""
    callee = filled(callee)
    return isinstance(callee, External) and callee.dotted.rpartition(".")[2] in catalog.CLIPS


def kept_parameters(flow: Flow, callee: Value) -> Values | None:
    """The parameters that were filled in already, None if the call is to name them."""
    if not isinstance(callee, Partial):
        return None
    positional, keywords = flow.calls.kept(callee)
    return positional[0] if positional else keywords.get("parameters")
