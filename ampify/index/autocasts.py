"""Which autocast, and which scaler of torch, an expression means."""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.syntax import path_to
from ampify.index.values import Frame, Instance, Value, Values, ordered
from ampify.model import facts as f


def is_scaler(value: Value) -> bool:
    """Whether a value is a GradScaler of torch, or of what derives it without a project of its own."""
    return isinstance(value, Instance) and value.cls is None and value.dotted.rpartition(".")[2] == "GradScaler"


def is_autocast(value: Value) -> bool:
    """Whether a value is an autocast context of torch."""
    return isinstance(value, Instance) and value.cls is None and value.dotted.rpartition(".")[2] == "autocast"


def scalers(values: Values) -> tuple[Value, ...]:
    """The scalers among values, in order."""
    return tuple(ordered(filter(is_scaler, values)))


def withs_around(flow: Flow, event: Event) -> Iterator[tuple[Frame, f.With]]:
    """The `with` statements that an event is under, outermost first."""
    for frame, span in event.stack:
        for block, index in path_to(flow.scope(frame).body, span):
            statement = block[index]
            if isinstance(statement, f.With) and statement.span != span:
                yield frame, statement


def autocasts_around(flow: Flow, event: Event) -> Iterator[tuple[Frame, f.With, f.Call | None]]:
    """Those of them that enter an autocast, with the call if it is there."""
    for frame, statement in withs_around(flow, event):
        yield from _of(flow, frame, statement)


def _of(flow: Flow, frame: Frame, statement: f.With) -> Iterator[tuple[Frame, f.With, f.Call | None]]:
    for context, _ in statement.items:
        made = [v for v in flow.evaluate(context, frame) if is_autocast(v)]
        if made:
            yield frame, statement, context if isinstance(context, f.Call) else _call(flow, made[0])


def _call(flow: Flow, value: Value) -> f.Call | None:
    created = flow.created.get(value) if isinstance(value, Instance) else None
    return created[1] if created else None
