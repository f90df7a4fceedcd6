"""Checkpoints: where the optimizer's state is saved and loaded, and whether amp's goes with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.syntax import expressions, first_argument, in_order, path_to, statements
from ampify.index.values import Instance, ordered
from ampify.index.whole_reads import WholeReads
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.project import StateLoad, StateSave

AMP_STATE = "amp.state_dict"


class States:
    """Reads saves and loads off their events."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.whole_reads = WholeReads(flow)

    def save(self, event: Event) -> StateSave | None:
        """A save of optimizer state; None for a snapshot that goes into no dict."""
        facts = self.flow.files[event.frame.path]
        statement = facts.anchor(event.statement)
        if event.detail in ("dict", "call"):
            values = event.node.values if isinstance(event.node, f.Mapping) else _keyword_values(event.node)
            present = any(self.is_amp_state(v, event) for v in values) or self.beside(event, AMP_STATE)
            return StateSave(event.anchor, event.anchor, statement, None, present, self._read_whole(event.node, event))
        target = event.statement.targets[0] if isinstance(event.statement, f.Assign) else None
        if event.detail == "each":
            return self._save_of_each(event, target)
        if event.detail == "state" and isinstance(target, f.Subscript) and stores(event):
            base = facts.text(target.value.span)
            present = self.beside(event, AMP_STATE)
            return StateSave(event.anchor, None, statement, base, present, self._read_whole(target.value, event))
        if event.detail == "alone":
            return StateSave(event.anchor, None, statement, None, False)
        return None

    def _save_of_each(self, event: Event, target: f.Expr | None) -> StateSave | None:
        """A dict made of several states at once: one more goes in behind it, if it has a name. What is an element
        itself is told of where it becomes one."""
        facts = self.flow.files[event.frame.path]
        if any(isinstance(part, f.Mapping | f.Elements | f.Comprehension) for part in event.parents) or stores(event):
            return None
        whole = isinstance(event.statement, f.Assign) and event.statement.value is event.node
        named = facts.text(target.span) if whole and target is not None and _plain(target) else None
        present = self.beside(event, AMP_STATE)
        read_whole = self._read_whole(event.node, event)
        return StateSave(event.anchor, None, facts.anchor(event.statement), named, present, read_whole)

    def loads(self, events: Sequence[Event]) -> tuple[StateLoad, ...]:
        """Loads of optimizer state; those that follow upon each other, from one checkpoint, share the last's statement.

        Amp's state is one for all optimizers, so it is loaded once, after the last of them.
        """
        found = [self.load(event) for event in events]
        return tuple(
            replace(load, statement=self._last_beside(load, event, found, events))
            for load, event in zip(found, events, strict=True)
        )

    def _last_beside(
        self, load: StateLoad, event: Event, found: Sequence[StateLoad], events: Sequence[Event]
    ) -> Anchor | None:
        if load.statement is None:
            return None
        block, index = path_to(self.flow.scope(event.frame).body, event.statement.span)[-1]
        # Anything but an expression of its own might bind the checkpoint's name anew, or leave the block.
        following = itertools.takewhile(lambda statement: isinstance(statement, f.Evaluate), block[index:])
        spans = {statement.span for statement in following}
        beside = [
            other.statement
            for other, later in zip(found, events, strict=True)
            if later.frame == event.frame and later.statement.span in spans and other.source == load.source
        ]
        return max((anchor for anchor in beside if anchor is not None), default=load.statement)

    def load(self, event: Event) -> StateLoad:
        """A load of optimizer state."""
        facts = self.flow.files[event.frame.path]
        assert isinstance(event.node, f.Call)
        whole = isinstance(event.statement, f.Evaluate) and event.statement.value is event.node
        argument = first_argument(event.node)
        taken = _taken(argument) if argument is not None else None
        if isinstance(argument, f.Call) and taken is not None and taken.key is None:
            taken = None  # by a key that is not told
        source = facts.text(taken.owner.span) if taken is not None and _plain(taken.owner) else None
        statement = facts.anchor(event.statement) if whole else None
        present = self.beside(event, "amp.load_state_dict")
        read = taken.owner if taken is not None else argument
        read_whole = self._read_whole(read, event) if read is not None else None
        popped = taken is not None and taken.popped
        load = StateLoad(event.anchor, statement, source, present, read_whole, popped)
        return self._with_removals(load, event, taken.key if taken is not None else None)

    def _with_removals(self, load: StateLoad, event: Event, key: object) -> StateLoad:
        """A load, with what takes keys out of its checkpoint: amp's would have to go with the optimizer's, once."""
        facts = self.flow.files[event.frame.path]
        body = self.flow.scope(event.frame).body
        removals = [(taken, s) for s in statements(body) for taken in _removals(s)]
        if load.source is None or load.statement is None:
            last = facts.anchor(removals[-1][1]) if removals else None
            return replace(load, popped=False, read_whole=load.read_whole or last)
        ours = [s for taken, s in removals if facts.text(taken.owner.span) == load.source and taken.key == key]
        others = [s for s in ours if s is not event.statement]
        early = self._early(load, event)
        if not others:
            return replace(load, popped=load.popped and not early)
        block, index = path_to(body, event.statement.span)[-1]
        beside = len(others) == 1 and not load.popped and any(s is others[0] for s in block[index:])
        if beside and not early:
            return replace(load, popped=True)
        return replace(load, popped=False, read_whole=load.read_whole or facts.anchor(others[-1]))

    def _early(self, load: StateLoad, event: Event) -> bool:
        """Whether all keys are gone over before the load, in its own function."""
        place, begin = load.read_whole, self.flow.scope(event.frame).span[:2]
        assert load.statement is not None
        return place is not None and place.path == event.frame.path and begin <= place.start < load.statement.start

    def _read_whole(self, expr: f.Expr, event: Event) -> Anchor | None:
        """Where what `expr` may be, or was taken from, is read as a whole."""
        values = ordered(self.flow.evaluate(expr, event.frame))
        return next((place for value in values if (place := self.whole_reads.of(value)) is not None), None)

    def is_amp_state(self, value: f.Expr, event: Event) -> bool:
        values = self.flow.evaluate(value, event.frame)
        return any(isinstance(v, Instance) and v.dotted.endswith(AMP_STATE) for v in values)

    def beside(self, event: Event, text: str) -> bool:
        """Whether a statement of the same function does the same for amp, under a condition perhaps."""
        facts = self.flow.files[event.frame.path]
        return any(text in facts.text(s.span) for s in self.flow.scope(event.frame).body)


def stores(event: Event) -> bool:
    """Whether a state goes under a key of its own, or those of several do: `state["optimizer"] = o.state_dict()`."""
    statement = event.statement
    lists = all(isinstance(part, f.Comprehension | f.Elements) for part in event.parents)
    return isinstance(statement, f.Assign) and isinstance(statement.targets[0], f.Subscript) and lists


def _keyword_values(node: f.Expr) -> tuple[f.Expr, ...]:
    return tuple(value for _, value in node.keywords) if isinstance(node, f.Call) else ()


@dataclass(frozen=True, slots=True)
class _Taken:
    """A key of a dict that an expression asks for (None if it is no constant), and whether it takes it out."""

    owner: f.Expr
    key: object
    popped: bool


def _taken(expr: f.Expr) -> _Taken | None:
    """What `checkpoint["optimizer"]`, or its `get` or `pop` of a key, takes."""
    match expr:
        case f.Subscript(value=owner, index=index):
            return _Taken(owner, _constant(index), False)
        case f.Call(func=f.Attribute(attr="get" | "pop" as method, value=owner), args=(key, *_)):
            return _Taken(owner, _constant(key), method == "pop")
    return None


def _constant(expr: f.Expr | None) -> object:
    return expr.value if isinstance(expr, f.Constant) else None


def _removals(statement: f.Stmt) -> Iterator[_Taken]:
    """What a statement takes out of dicts: `checkpoint.pop("optimizer")`, `del checkpoint["optimizer"]`."""
    for whole in expressions(statement):
        for expr, _ in in_order(whole):
            taken = _taken(expr)
            deleted = statement.kind == "Delete" and isinstance(expr, f.Subscript)
            if taken is not None and (taken.popped or deleted):
                yield taken


def _plain(expr: f.Expr) -> bool:
    """Whether an expression can be written again without effect: names, attributes and constant subscripts."""
    match expr:
        case f.Name():
            return True
        case f.Attribute():
            return _plain(expr.value)
        case f.Subscript():
            return _plain(expr.value) and isinstance(expr.index, f.Constant)
    return False
