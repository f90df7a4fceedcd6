"""Owns `zero_grad` of an optimizer that steps masters: it zeroes the model's gradients with theirs."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer

from .masters import Masters


class _ZeroGrad:
    """Stands on one optimizer as its `zero_grad`. torch has no hook for it, and pickles and copies do not hold it."""

    __slots__ = ("is_in_block", "masters", "optimizer")

    def __init__(self, optimizer: Optimizer, masters: Masters, is_in_block: Callable[[], bool]) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.masters = masters
        self.is_in_block = is_in_block

    def __call__(self, set_to_none: bool = True, **keywords: Any) -> None:
        optimizer = self.optimizer()
        if optimizer is None:
            return
        type(optimizer).zero_grad(optimizer, set_to_none, **keywords)
        for parameter, _ in self.masters.pairs:
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad.detach_().zero_()
        # Inside of a scaled block, what comes after the zeroes is scaled.
        self.masters.forget_gradients(keeps_scale=self.is_in_block())


def zero_with_model(optimizer: Optimizer, masters: Masters, is_in_block: Callable[[], bool]) -> None:
    """Have `optimizer.zero_grad()` zero the gradients of the model parameters behind its masters too.

    `is_in_block` tells whether a scaled block is open for the optimizer.
    """
    vars(optimizer)["zero_grad"] = _ZeroGrad(optimizer, masters, is_in_block)


def zero_alone(optimizer: Optimizer) -> None:
    """Undo `zero_with_model`."""
    if isinstance(vars(optimizer).get("zero_grad"), _ZeroGrad):
        del vars(optimizer)["zero_grad"]
