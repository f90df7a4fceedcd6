"""Owns how a step is skipped from inside: torch's hooks can change what a step works on, but cannot call it off."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch.optim import Optimizer

from .gradients import parameters_of

Hidden = list[tuple[torch.Tensor, torch.Tensor]]


def hide_gradients(optimizer: Optimizer) -> Hidden:
    """Take all gradients off the parameters: every optimizer passes over a parameter that has none."""
    hidden = []
    for parameter in parameters_of(optimizer):
        if parameter.grad is not None:
            hidden.append((parameter, parameter.grad))
            parameter.grad = None
    return hidden


def show_gradients(hidden: Hidden) -> None:
    """Put gradients back, the same tensors, where none has come in their place."""
    while hidden:
        parameter, grad = hidden.pop()
        if parameter.grad is None:
            parameter.grad = grad


def stand_in_for(optimizer: Optimizer) -> Optimizer:
    """A copy of the optimizer to run the skipped step on, so that its own counters do not move.

    Groups and state are copied a level deep; parameters and tensors are shared.
    """
    copy = object.__new__(type(optimizer))
    state: defaultdict[Any, Any] = defaultdict(dict)
    state.update({key: dict(value) if isinstance(value, dict) else value for key, value in optimizer.state.items()})
    copy.__dict__.update(vars(optimizer))
    copy.__dict__.update(state=state, param_groups=[dict(group) for group in optimizer.param_groups])
    return copy
