"""Owns loss scales that a script moves by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


class LossScaler:
    """A loss scale that stays."""

    def __init__(self, scale: float = 1) -> None:
        self.cur_scale = scale

    @property
    def loss_scale(self) -> float:
        """What the loss is multiplied by."""
        return self.cur_scale

    def has_overflow(self, params: Iterable[torch.Tensor]) -> bool:
        """False: nothing looks for overflow under a scale that stays."""
        return False

    def update_scale(self, overflow: bool) -> None:
        """Leave the scale as it is."""

    def scale_gradient(self, module: Any, grad_in: Any, grad_out: Any) -> tuple[Any, ...]:
        """A backward hook's gradients, scaled."""
        return tuple(self.loss_scale * grad for grad in grad_in)

    def backward(self, loss: torch.Tensor, retain_graph: bool = False) -> None:
        """Run the backward of `loss`, scaled."""
        torch.autograd.backward(loss * self.loss_scale, retain_graph=retain_graph)


class DynamicLossScaler(LossScaler):
    """A loss scale that is divided by `scale_factor` at an overflow, to no less than 1, and multiplied by it after
    `scale_window` steps without.
    """

    def __init__(self, init_scale: float = 2**32, scale_factor: float = 2.0, scale_window: int = 1000) -> None:
        super().__init__(init_scale)
        self.cur_iter = 0
        self.last_overflow_iter = -1
        self.scale_factor = scale_factor
        self.scale_window = scale_window

    def has_overflow(self, params: Iterable[torch.Tensor]) -> bool:
        """Whether a gradient of `params` is not finite; waits for the device."""
        grads = (parameter.grad for parameter in params)
        return any(not bool(torch.isfinite(grad).all()) for grad in grads if grad is not None)

    def update_scale(self, overflow: bool) -> None:
        """Move the scale after a step."""
        if overflow:
            self.cur_scale = max(self.cur_scale / self.scale_factor, 1)
            self.last_overflow_iter = self.cur_iter
        elif (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
            self.cur_scale *= self.scale_factor
        self.cur_iter += 1
