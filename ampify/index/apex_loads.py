"""Finds where the state of an optimizer of apex is loaded, which counts its steps as none of torch's does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampify.apex_successors import OTHER_STATES
from ampify.catalog import canonical
from ampify.index.events import Event, at_places
from ampify.index.flow import Flow
from ampify.index.reaching import free_name
from ampify.index.trace import Trace
from ampify.index.values import Instance, Value
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.apex import ApexLoad

_STATE_NAMES = ("optimizer_state", "saved_state", "apex_optimizer_state")
_STEPS_NAMES = ("steps_of", "saved_steps", "apex_steps_of")
_STATES_NAMES = ("states", "states_of", "apex_states")
_OTHERS = frozenset(map(canonical, OTHER_STATES))


def apex_loads(flow: Flow, trace: Trace) -> Iterator[ApexLoad]:
    """The places of a solved and traced program, in the order of the text."""
    for _, events in sorted(at_places(e for e in trace.events if e.kind == "load").items()):
        values = frozenset(value for event in events for value in event.values)
        made = frozenset(_built(flow, values))
        if made:
            yield _load(flow, events[0], made, alone=all(map(_reads_alike, values)))


def _built(flow: Flow, values: Iterable[Value]) -> Iterator[Anchor]:
    for value in values:
        if isinstance(value, Instance) and value.dotted in _OTHERS and value in flow.created:
            frame, call = flow.created[value]
            yield flow.files[frame.path].anchor(call)


def _reads_alike(value: Value) -> bool:
    """Whether an optimizer takes no harm from a count of steps in each parameter's state."""
    return isinstance(value, Instance) and (value.dotted in _OTHERS or value.dotted.startswith("torch.optim."))


def _load(flow: Flow, event: Event, made: frozenset[Anchor], *, alone: bool) -> ApexLoad:
    facts, call, statement = flow.files[event.frame.path], event.node, event.statement
    whole = isinstance(statement, f.Evaluate) and statement.value is call
    names = [free_name(names, [facts.names]) for names in (_STATE_NAMES, _STEPS_NAMES, _STATES_NAMES)]
    free = tuple(name for name in names if name is not None)
    if alone and whole and len(free) == len(names) and isinstance(call, f.Call) and not call.keywords:
        (argument,) = call.args if len(call.args) == 1 else (None,)
        if argument is not None and not isinstance(argument, f.Starred):
            source = facts.text(argument.span)
            if "\n" not in source:
                return ApexLoad(event.anchor, made, facts.anchor(statement), facts.anchor(argument), source, free)
    return ApexLoad(event.anchor, made)
