"""What the methods of lists, dicts and the like do to the flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ampify.index.values import NOTHING, Frame, Place, Text, Value, Values
from ampify.model import facts as f

if TYPE_CHECKING:
    from ampify.index.flow import Flow

ADDING = frozenset({"append", "add", "appendleft", "insert", "setdefault"})
EXTENDING = frozenset({"extend", "extendleft", "update"})
# Methods after which an element need not be where it was.
MOVING = frozenset({"insert", "appendleft", "extendleft", "pop", "popleft", "remove", "reverse", "rotate", "sort"})
TAKING = frozenset({"get", "pop", "popleft", "setdefault"})


def container_method(
    flow: Flow,
    owner: Value,
    name: str,
    call: f.Call,
    frame: Frame,
    place: Place,
    positional: list[Values],
    keywords: dict[str, Values],
) -> Values:
    """What a method of a container returns; what it is given goes into the container."""
    write = (frame, call.span)
    everything = flow.elements(frozenset((owner,)))
    if name in ADDING:
        for values in positional:
            flow.store.add(owner, "[*]", frozenset(v for v in values if not isinstance(v, Text)), write)
    if name in EXTENDING:
        for values in positional:
            flow.store.add(owner, "[*]", flow.elements(values), write)
        for key, values in keywords.items():
            flow.store.add(owner, f"[{key!r}]", values, write)
    asked = call.args[0] if call.args else None
    if name in ("get", "pop") and isinstance(asked, f.Constant) and isinstance(asked.value, str):
        return flow.element(frozenset((owner,)), f"[{asked.value!r}]").union(*positional[1:])
    if name in MOVING:
        flow.store.add(owner, "[*]", everything, write)
    if name in TAKING:
        return everything.union(*positional[1:])
    if name == "items":
        pair = flow.container(place, frame, "pair", {"[1]": everything})
        return flow.container(place, frame, "items", {"[*]": pair})
    if name == "copy":
        return frozenset((owner,))
    return flow.container(place, frame, name, {"[*]": everything}) if name in ("values", "popitem") else NOTHING
