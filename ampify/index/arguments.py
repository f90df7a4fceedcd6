"""What is found among the arguments of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ampify.index.values import NOTHING, Container, Derived, Parameters, Value, Values

if TYPE_CHECKING:
    from ampify.index.flow import Flow

# What the result of a function may depend on; asked of every argument.
CARRIED = (Derived, Parameters)


def first(positional: list[Values], keywords: Mapping[str, Values], name: str) -> Values:
    """The first argument, by position or by name."""
    if positional:
        return positional[0]
    return keywords.get(name, NOTHING)


def flowing(flow: Flow, positional: list[Values] | tuple[Values, ...], keywords: Mapping[str, Values]) -> Values:
    """Tensors and parameters among the arguments, also inside containers: what a function's result depends on.

    All that one call may call is asked with the same arguments, so that the last answer is kept. Should a container
    grow meanwhile, its reader is evaluated again.
    """
    if flow.carried is not None and flow.carried[0] is positional and flow.carried[1] is keywords:
        return flow.carried[2]
    values = _flowing(flow, positional, keywords)
    flow.carried = (positional, keywords, values)
    return values


def _flowing(flow: Flow, positional: Iterable[Values], keywords: Mapping[str, Values]) -> Values:
    found: set[Value] = set()
    for values in [*positional, *keywords.values()]:
        for value in values:
            if isinstance(value, CARRIED):
                found.add(value)
            elif isinstance(value, Container):
                inner = flow.elements(frozenset((value,)))
                found.update([v for v in inner if isinstance(v, CARRIED)])
    return frozenset(found)


def has_parameters(positional: list[Values], keywords: Mapping[str, Values]) -> bool:
    """Whether the first argument holds parameters of a module."""
    return any(isinstance(v, Parameters) for v in first(positional, keywords, "params"))
