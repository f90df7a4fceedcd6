"""Builtins and functions of the standard library whose result the flow must know."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ampify import catalog
from ampify.index.arguments import first, flowing
from ampify.index.values import (
    NOTHING,
    ClassValue,
    External,
    Frame,
    Instance,
    ModuleValue,
    Partial,
    Place,
    Super,
    Text,
    Value,
    Values,
)
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.calls import Calls

# Builtins that make a list or tuple, which can be gone through more than once.
LISTING = ("list", "tuple", "sorted")

Builtin: TypeAlias = "Callable[[Calls, f.Call, Frame, Place, list[Values], dict[str, Values]], Values]"


def _getattr(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    found = positional[2] if len(positional) > 2 else NOTHING
    names = positional[1] if len(positional) > 1 else NOTHING
    known = [v.text for v in names if isinstance(v, Text)]
    for name in known:
        found |= calls.flow.attribute(positional[0], name, called=False)
    if positional and not all(isinstance(v, Text) for v in names or (None,)):
        for value in positional[0]:
            if isinstance(value, External):
                found |= calls.flow.attribute(frozenset((value,)), "*", called=False)
            elif isinstance(value, ModuleValue):
                found |= calls.flow.classes.definitions(value)
    return found


def _super(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    flow = calls.flow
    method: Frame | None = frame
    while method is not None and method.outer is not None and flow.scope(method.outer).kind != "class":
        method = method.outer
    if method is None or method.outer is None or method.outer.outer is None or not flow.scope(method).parameters:
        return NOTHING
    cls = flow.make(ClassValue, method.outer.path, method.outer.scope, method.outer.outer)
    receivers = flow.store.read(method, flow.scope(method).parameters[0].name, flow.reader)
    return frozenset(flow.make(Super, r, cls) for r in receivers)


def _elements(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    flow = calls.flow
    everything = NOTHING
    for values in positional:
        everything |= flow.elements(values)
    carried = flowing(calls.flow, positional, {})
    fields = {"[*]": everything, **{f"[{k!r}]": v for k, v in keywords.items()}}
    part = "" if isinstance(call.func, f.Name) and call.func.id in LISTING else "elements"
    return carried | flow.container(place, frame, part, fields)


def _one_element(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    found = NOTHING
    for values in positional:
        found |= calls.flow.elements(values)
    return found


def _enumerate(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    values = calls.flow.elements(first(positional, keywords, "iterable"))
    pair = calls.flow.container(place, frame, "pair", {"[1]": values})
    return calls.flow.container(place, frame, "elements", {"[*]": pair})


def _zip(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    fields = {f"[{i}]": calls.flow.elements(values) for i, values in enumerate(positional)}
    pair = calls.flow.container(place, frame, "pair", fields)
    return calls.flow.container(place, frame, "elements", {"[*]": pair})


def _map(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    given = [calls.flow.elements(values) for values in positional[1:]]
    found = NOTHING
    for function in first(positional, keywords, "function"):
        found |= calls.apply(function, call, frame, place, given, {})
    return calls.flow.container(place, frame, "elements", {"[*]": found})


def _filter(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    return _elements(calls, call, frame, place, positional[1:], {})


def _partial(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    """`functools.partial`: a function of its own, which keeps these arguments."""
    flow = calls.flow
    found: set[Value] = set()
    for function in first(positional, keywords, "func"):
        made = flow.make(Partial, function, place, frame.sites, len(positional) - 1)
        for index, values in enumerate(positional[1:]):
            flow.store.add(made, f"[{index}]", values)
        for name, values in keywords.items():
            flow.store.add(made, f"[{name!r}]", values)
        found.add(made)
    return frozenset(found)


def _copied(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    """A deep copy is an object of its own, of the same class."""
    found: set[Value] = set()
    for value in first(positional, keywords, "x"):
        if isinstance(value, Instance):
            copy = calls.flow.make(Instance, place, frame.sites, value.cls, value.dotted)
            calls.flow.created.setdefault(copy, (frame, call))
            if copy.cls is not None:
                calls.made.setdefault(copy.cls, {})[copy] = None
            found.add(copy)
        else:
            found.add(value)
    return frozenset(found)


def _static(
    calls: Calls, call: f.Call, frame: Frame, place: Place, positional: list[Values], keywords: dict[str, Values]
) -> Values:
    """A function that an attribute of an object does not make its method: like one with no argument filled in."""
    return frozenset(calls.flow.make(Partial, v, place, frame.sites, 0) for v in first(positional, keywords, ""))


BUILTINS: dict[str, Builtin] = {
    "getattr": _getattr,
    "super": _super,
    "next": _one_element,
    "enumerate": _enumerate,
    "zip": _zip,
    "map": _map,
    "filter": _filter,
    "functools.partial": _partial,
    "staticmethod": _static,
    "copy.deepcopy": _copied,
    "copy.copy": _copied,
    **dict.fromkeys(catalog.TRANSPARENT - {"next", "enumerate", "zip", "map", "filter"}, _elements),
}
