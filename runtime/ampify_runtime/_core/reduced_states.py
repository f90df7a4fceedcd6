"""Owns the state of an optimizer that stepped before its parameters were reduced: in their type from then on."""

from __future__ import annotations

import torch
from torch.optim import Optimizer

from .links import REDUCED


def reduce_state(optimizer: Optimizer) -> None:
    """Cast state to the type of its parameter where that is reduced, as torch does when it loads a state.

    An optimizer that loads in its own way keeps its state in its own way too: the fused ones have it in float32.
    """
    if type(optimizer).load_state_dict is not Optimizer.load_state_dict:
        return
    for parameter, state in optimizer.state.items():
        if isinstance(parameter, torch.Tensor) and parameter.dtype in REDUCED and isinstance(state, dict):
            state.update({name: value.to(parameter.dtype) for name, value in state.items() if _follows(name, value)})


def _follows(name: str, value: object) -> bool:
    # Counts are exact only in float32.
    return name != "step" and isinstance(value, torch.Tensor) and value.is_floating_point()
