"""Events of a training run, as the trace meets them in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ampify.index.values import Frame, Value
from ampify.model import facts as f
from ampify.model.anchor import Anchor

EventKind: TypeAlias = Literal[
    "backward",
    "backward_call",
    "step",
    "unknown_step",
    "zero_grad",
    "clip",
    "grad_read",
    "autograd_grad",
    "hook",
    "build",
    "move",
    "wrap",
    "shard",
    "save",
    "load",
    "initialize",
    "older_amp",
    "cross_entropy",
    "scheduler",
    "half",
    "double",
    "scaler",
    "unscale",
    "update",
    "scaler_save",
    "scaler_load",
]
Stack: TypeAlias = tuple[tuple[Frame, f.Span], ...]


@dataclass(eq=False, slots=True)
class Event:
    """One place met once on a run. `stack` holds, outermost first, each frame and the statement it was at; `loops` the
    `for` and `while` statements under way; `live` the backward events whose gradients are still there,
    `latest` the last of them on each path here; `values` what
    it acts on; `root` the number of the run; `number` its place in the order of all events."""

    kind: EventKind
    node: f.Expr
    anchor: Anchor
    frame: Frame
    statement: f.Stmt
    stack: Stack
    loops: frozenset[tuple[Frame, f.Span]]
    number: int
    root: int
    values: tuple[Value, ...] = ()
    live: frozenset[Event] = frozenset()
    latest: frozenset[Event] = frozenset()
    scaled: str | None = None
    detail: str = ""
    parents: tuple[f.Expr, ...] = ()
    feeds: dict[Value, Event] = field(default_factory=dict)

    def __hash__(self) -> int:
        return self.number

    @property
    def only_asks(self) -> bool:
        """Of a gradient that is read: whether it is only compared, set or deleted."""
        if self.parents and self.parents[-1].kind == "Compare":
            return True
        targets: tuple[f.Expr, ...] = ()
        if isinstance(self.statement, f.Assign):
            targets = self.statement.targets
        elif isinstance(self.statement, f.Simple) and self.statement.kind == "Delete":
            targets = self.statement.operands
        parts = (part for target in targets for part in (target.items if isinstance(target, f.Elements) else (target,)))
        return any(part is self.node for part in parts)


def of_kinds(events: Mapping[str, Iterable[Event]], kinds: str, root: int) -> list[Event]:
    """Events of a run, in order, that are of some kinds, which spaces part; `events` are all, by kind."""
    found = (e for kind in kinds.split() for e in events.get(kind, ()) if e.root == root)
    return sorted(found, key=lambda e: e.number)


def at_places(events: Iterable[Event]) -> dict[Anchor, list[Event]]:
    """Events by the place where they happen."""
    found: dict[Anchor, list[Event]] = {}
    for event in events:
        found.setdefault(event.anchor, []).append(event)
    return found
