"""The statements that run a model for a gradient penalty: what it differentiates is to be in float32 throughout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ampify.index.entities import root
from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.slices import Slices, meets, reads
from ampify.index.syntax import in_order, path_to
from ampify.index.trace import Trace
from ampify.index.values import Derived, External, Frame, Instance, Value
from ampify.model import facts as f

# What takes the wider of its operands' types, or of the tensors that it is given.
_PROMOTING = frozenset({"Add", "Sub", "Mult", "Div"})
_PROMOTING_CALLS = frozenset({"cat", "concat"})
# How many statements a tensor is followed back.
_STEPS = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A statement of a frame that runs the model for a penalty."""

    statement: f.Stmt
    frame: Frame


@dataclass(frozen=True, slots=True)
class _Sought:
    """The names in a frame of what `torch.autograd.grad` is given: what is differentiated, and by what."""

    outputs: frozenset[str]
    inputs: frozenset[str]


class PenaltyForwards:
    """Answers from a trace."""

    def __init__(self, flow: Flow, trace: Trace, slices: Slices) -> None:
        self.flow = flow
        self.slices = slices
        events = [e for e in trace.events if e.kind == "autograd_grad" and e.detail == "penalty"]
        self.places = {event: place for event in events if (place := self.find(event)) is not None}
        self._kept = {(p.frame.path, p.frame.scope, p.statement.span) for p in self.places.values()}

    def is_own(self, statement: f.Stmt, frame: Frame) -> bool:
        """Whether a statement runs a model for a penalty."""
        return (frame.path, frame.scope, statement.span) in self._kept

    def find(self, event: Event) -> Place | None:
        """The statement that computes what a penalty differentiates, in its function or in one that called it; None if
        that is not one statement by itself, or runs on what may be in half precision."""
        if not isinstance(event.node, f.Call):
            return None
        sought = _sought(event.node)
        for depth in range(len(event.stack) - 1, -1, -1):
            frame, span = event.stack[depth]
            for block, index in reversed(path_to(self.flow.scope(frame).body, span)):
                at = self.setter(block[:index], frame, sought.outputs)
                if at is not None:
                    return Place(block[at], frame) if self.serves(block[:at], block[at], frame, sought.inputs) else None
            if depth and sought.outputs:
                caller, at_call = event.stack[depth - 1]
                sought = _Sought(
                    self.slices.outside(sought.outputs, frame, caller, at_call),
                    self.slices.outside(sought.inputs, frame, caller, at_call),
                )
        return None

    def setter(self, block: tuple[f.Stmt, ...], frame: Frame, names: frozenset[str]) -> int | None:
        """The position of the last statement that may set one of some names."""
        for at in range(len(block) - 1, -1, -1):
            found, _ = self.slices.sets(block[at], frame)
            if any(meets(one, other) for one in found for other in names):
                return at
        return None

    def serves(self, before: tuple[f.Stmt, ...], statement: f.Stmt, frame: Frame, inputs: frozenset[str]) -> bool:
        """Whether a statement is an assignment of what a model computes of the inputs, all of it in float32."""
        if not isinstance(statement, f.Assign) or statement.kind == "AugAssign":
            return False
        read = frozenset(reads(statement.value))
        return any(meets(one, other) for one in read for other in inputs) and all(
            self.is_wide(argument, before, frame) for argument in _arguments(statement.value)
        )

    def is_wide(self, expr: f.Expr, before: tuple[f.Stmt, ...], frame: Frame, seen: int = 0) -> bool:
        """Whether a tensor is in float32 even where a model under autocast computed a part of it: that is mixed with
        what is none of a model's, now or in the statements before."""
        if seen == _STEPS:
            return False
        if not self.is_computed(expr, before, frame):
            return True
        if any(self.runs_module(part, frame) for part, _ in in_order(expr)):
            return False
        if self.is_mixed(expr, before, frame):
            return True
        names = [p for p, _ in in_order(expr) if isinstance(p, f.Name) and self.is_computed(p, before, frame)]
        settings = [self.setting(name, before, frame) for name in names]
        return bool(names) and all(found is not None and self.is_wide(*found, frame, seen + 1) for found in settings)

    def is_computed(self, expr: f.Expr, before: tuple[f.Stmt, ...], frame: Frame, seen: int = 0) -> bool:
        """Whether a model may have computed a part of a tensor, detached perhaps."""
        parts = [part for part, _ in in_order(expr)]
        if any(isinstance(v, Derived) for part in parts for v in self.flow.evaluate(part, frame)):
            return True
        settings = [self.setting(p, before, frame) for p in parts if isinstance(p, f.Name) and seen < _STEPS]
        return any(found is not None and self.is_computed(*found, frame, seen + 1) for found in settings)

    def setting(
        self, name: f.Name, before: tuple[f.Stmt, ...], frame: Frame
    ) -> tuple[f.Expr, tuple[f.Stmt, ...]] | None:
        """What the last statement to set a name sets it to, and the statements before that one."""
        at = self.setter(before, frame, frozenset((name.id,)))
        statement = before[at] if at is not None else None
        return (statement.value, before[:at]) if isinstance(statement, f.Assign) else None

    def runs_module(self, expr: f.Expr, frame: Frame) -> bool:
        return isinstance(expr, f.Call) and any(isinstance(c, Instance) for c in self.flow.calls.callee(expr, frame))

    def is_mixed(self, expr: f.Expr, before: tuple[f.Stmt, ...], frame: Frame) -> bool:
        """Whether arithmetic, or a `torch.cat`, puts together what a model computed and tensors of other origin."""
        parts = [part for part, _ in in_order(expr)]
        promoting = any(
            (isinstance(part, f.Operation) and part.operator in _PROMOTING)
            or (isinstance(part, f.Call) and isinstance(part.func, f.Attribute) and part.func.attr in _PROMOTING_CALLS)
            for part in parts
        )
        return promoting and any(self.is_tensor(part, before, frame) for part in parts)

    def is_tensor(self, expr: f.Expr, before: tuple[f.Stmt, ...], frame: Frame) -> bool:
        """Whether an expression may be a tensor, and one that no model computed."""
        if not isinstance(expr, f.Name | f.Attribute):
            return False
        if any(_is_tensor(value) for value in self.flow.evaluate(expr, frame)):
            return True
        setting = self.setting(expr, before, frame) if isinstance(expr, f.Name) else None
        return setting is not None and not self.is_computed(*setting, frame) and self.is_made(setting[0], frame)

    def is_made(self, expr: f.Expr, frame: Frame) -> bool:
        """Whether torch makes a tensor in an expression."""
        calls = (part for part, _ in in_order(expr) if isinstance(part, f.Call))
        callees = (callee for call in calls for callee in self.flow.calls.callee(call, frame))
        return any(isinstance(callee, External) and callee.dotted.startswith("torch.") for callee in callees)


def _sought(call: f.Call) -> _Sought:
    keywords = dict(call.keywords)
    given = dict(zip(("outputs", "inputs"), call.args, strict=False))
    outputs, inputs = (given.get(name, keywords.get(name)) for name in ("outputs", "inputs"))
    return _Sought(*(frozenset(reads(expr)) if expr is not None else frozenset() for expr in (outputs, inputs)))


def _arguments(value: f.Expr) -> Iterator[f.Expr]:
    """The arguments of all calls in an expression."""
    for node, _ in in_order(value):
        if isinstance(node, f.Call):
            yield from node.args
            yield from (argument for _, argument in node.keywords)


def _is_tensor(value: Value) -> bool:
    """Whether a value comes from torch, or out of an object of which no more is known, other than the options."""
    inner = root(value)
    dotted = inner.dotted if isinstance(inner, Instance) else ""
    return dotted.startswith("torch.") or (inner is not value and not dotted.startswith("argparse."))
