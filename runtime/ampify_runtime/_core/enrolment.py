"""Owns what the runtime knows of each optimizer that was initialized."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from .masters import Masters
from .overflow_news import Skips
from .policy import Policy
from .zeroing import zero_alone, zero_with_model


@dataclass(frozen=True, slots=True)
class Unscaled:
    """A backward outside of a block: its line, and the parameters it gave gradients to, with these."""

    where: str
    grads: list[tuple[weakref.ref[torch.Tensor], weakref.ref[torch.Tensor]]]


@dataclass(slots=True, eq=False)
class Enrolment:
    """An optimizer's policy, and where it stands between two steps. Holds no reference to the optimizer."""

    policy: Policy
    name: str
    # Only the thread that trains with an optimizer may touch its gradients.
    thread: int = field(default_factory=threading.get_ident)
    handles: tuple[RemovableHandle, ...] = ()
    # What its gradients are multiplied by at the moment; None: by nothing.
    scaled_by: torch.Tensor | None = None
    # Whether its gradients were finite when last checked; None: not checked since they changed.
    found_inf: torch.Tensor | None = None
    # Whether a scaled backward has run since its last step.
    has_scaled_backward: bool = False
    # Whether a scaled block of its thread is open, so that its gradients are still being made.
    is_in_block: bool = False
    # Whether it has stepped in that block, so that what comes into its gradients is scaled and they are not.
    has_stepped_in_block: bool = False
    # The first unscaled backward among its gradients, as far as known.
    unscaled: Unscaled | None = None
    # What it steps in place of reduced parameters; None: it steps the model's own.
    masters: Masters | None = None
    # Where each parameter, by its id, stands among those of the models; empty if it has them in that order.
    places: dict[int, int] = field(default_factory=dict)
    # Its steps that were skipped.
    skips: Skips = field(init=False)

    def __post_init__(self) -> None:
        self.skips = Skips(self.policy, self.name)


_enrolments: weakref.WeakKeyDictionary[Optimizer, Enrolment] = weakref.WeakKeyDictionary()


def enrol(optimizer: Optimizer, policy: Policy) -> Enrolment:
    """Make `optimizer` known under `policy`, in place of what was known of it."""
    dismiss(optimizer)
    enrolment = Enrolment(policy, type(optimizer).__name__)
    if policy.has_masters:
        enrolment.masters = Masters()
        enrolment.masters.adopt(optimizer)
        zero_with_model(optimizer, enrolment.masters, lambda: enrolment.is_in_block)
    _enrolments[optimizer] = enrolment
    return enrolment


def dismiss(optimizer: Optimizer) -> None:
    """Take our hooks and masters off `optimizer`, and forget it."""
    former = _enrolments.pop(optimizer, None)
    if former is None:
        return
    for handle in former.handles:
        handle.remove()
    if former.masters is not None:
        zero_alone(optimizer)
        former.masters.release(optimizer, shared=_stepped_by_others())


def _stepped_by_others() -> set[int]:
    """The ids of all masters that initialized optimizers step."""
    known = (enrolment.masters for enrolment in _enrolments.values())
    return {number for masters in known if masters is not None for number in masters.ids}


def enrolment_of(optimizer: Optimizer) -> Enrolment | None:
    """What is known of `optimizer`; None if it was not initialized."""
    return _enrolments.get(optimizer)


def enrolled(thread: int | None = None) -> list[tuple[Optimizer, Enrolment]]:
    """All initialized optimizers that still live, in the order of their initialization; of one thread, if named."""
    # What `items` does, without its guard against removal during iteration, which costs more than all the rest.
    data: dict[weakref.ref[Optimizer], Enrolment] = vars(_enrolments)["data"]
    return [
        (optimizer, enrolment)
        for reference, enrolment in list(data.items())
        if (thread is None or enrolment.thread == thread) and (optimizer := reference()) is not None
    ]


def forget_enrolments() -> None:
    """Take the hooks off all optimizers, and forget them."""
    for optimizer, _ in enrolled():
        dismiss(optimizer)


def require_optimizer(value: Any, where: str) -> Optimizer:
    """`value`, if it is an optimizer of torch. Raises TypeError naming what it is otherwise."""
    if isinstance(value, Optimizer):
        return value
    inner = next(
        (name for name in ("optimizer", "_optimizer") if isinstance(getattr(value, name, None), Optimizer)), None
    )
    hint = f"pass its `.{inner}`" if inner else "pass the torch.optim.Optimizer that steps"
    raise TypeError(f"{where}: {type(value).__name__} is no torch.optim.Optimizer; {hint}")
