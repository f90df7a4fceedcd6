"""Which calls of a `step` are an optimizer's, and whose: known ones, and those that may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from ampify import catalog
from ampify.index.entities import Entities
from ampify.index.events import EventKind
from ampify.index.flow import Flow
from ampify.index.syntax import first_argument, is_none, last_name
from ampify.index.values import Container, Frame, Instance, NoneValue, Parameters, Value, Values, trail
from ampify.index.words import NOT_OPTIMIZERS
from ampify.model import facts as f

# The kind of an event, the optimizers it concerns, and its detail.
Step: TypeAlias = tuple[EventKind, tuple[Value, ...], str]


class Steps:
    """Answers from a solved flow."""

    def __init__(self, flow: Flow, entities: Entities) -> None:
        self.flow = flow
        self.entities = entities

    def of(self, node: f.Call, frame: Frame, receivers: Values, *, inside: bool) -> Iterator[Step]:
        """The events of `receivers.step(...)`; `inside` where the step is a function of the program."""
        optimizers = self.entities.optimizers(receivers)
        given = any(self.is_given(argument, frame) for argument in (*node.args, *(v for _, v in node.keywords)))
        handed = first_argument(node)
        stepped = self.entities.optimizers(self.flow.evaluate(handed, frame)) if handed is not None else ()
        if receivers and all(isinstance(r, NoneValue) for r in receivers):
            return
        if stepped and not optimizers and not inside:
            scaler = any(isinstance(r, Instance) and r.dotted.startswith(catalog.TORCH_AMP) for r in receivers)
            yield "step", stepped, "scaler" if scaler else "stranger"
        elif optimizers:
            yield "step", optimizers, "closure" if given else ""
            wraps = frozenset(r for r in receivers if self.wraps_optimizer(r))
            if wraps:
                yield "unknown_step", (), trail(wraps)
        elif not inside and not given and self.may_be_optimizer(node, receivers):
            yield "unknown_step", (), trail(receivers)

    def is_given(self, argument: f.Expr, frame: Frame) -> bool:
        """Whether an argument may be anything but None: `closure=None` that no caller sets is not, and neither are
        `*args` and `**kwargs` that no caller fills."""
        values = self.flow.evaluate(argument, frame)
        rest = argument.value if isinstance(argument, f.Starred) else argument
        if isinstance(rest, f.Name) and any(
            p.name == rest.id and p.kind in ("star", "doublestar") for p in self.flow.scope(frame).parameters
        ):
            return any(self.flow.store.fields(v, None) for v in values)
        return not is_none(argument) and not (values and all(isinstance(v, NoneValue) for v in values))

    def wraps_optimizer(self, value: Value) -> bool:
        """Whether something made outside the project was given an optimizer, and is none that is known."""
        if not isinstance(value, Instance) or value.cls is not None or self.entities.is_optimizer(value):
            return False
        if catalog.is_scheduler(value.dotted) or value not in self.flow.created:
            return False
        frame, call = self.flow.created[value]
        given = (self.flow.evaluate(argument, frame) for argument in (*call.args, *(v for _, v in call.keywords)))
        return any(self.entities.is_optimizer(v) for values in given for v in values)

    def may_be_optimizer(self, node: f.Call, receivers: Values) -> bool:
        if not isinstance(node.func, f.Attribute):
            return False
        name = last_name(node.func.value).lower()
        if any(isinstance(r, Instance) and r.cls is None and catalog.is_scheduler(r.dotted) for r in receivers):
            return False
        if "optim" in name:
            return True
        if any(word in name for word in NOT_OPTIMIZERS):
            return False
        for receiver in receivers:
            if isinstance(receiver, Instance) and receiver.cls is None and not self.given_parameters(receiver):
                return False
        return True

    def given_parameters(self, made: Instance) -> bool:
        """Whether something made outside the project was given parameters of a module, or the module, to make it."""
        frame, call = self.flow.created[made]
        arguments = [*call.args, *(value for _, value in call.keywords)]
        given = frozenset().union(*(self.flow.evaluate(argument, frame) for argument in arguments))
        given |= self.flow.elements(frozenset(v for v in given if isinstance(v, Container)))
        return any(isinstance(v, Parameters) or self.entities.is_module(v) for v in given)
