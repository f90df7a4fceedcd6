"""Owns FusedAdagrad: Adagrad in one pass over all parameters of a device."""

from __future__ import annotations

from typing import Any

import torch

from ..kernels import operations
from .fused_optimizer import Closure, FusedOptimizer, loss_of
from .gathering import alike, zeros_for
from .scaling import scaling_of


class FusedAdagrad(FusedOptimizer):
    """Adagrad, with decoupled weight decay if `adagrad_w_mode`; sums are float32 for half parameters too.

    `set_grad_none`: what `zero_grad()` does without an argument. State dicts interchange with apex's.
    """

    takes_model_gradients = True
    _choices = ("adagrad_w_mode", "set_grad_none")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        set_grad_none: bool = True,
        adagrad_w_mode: bool = False,
    ) -> None:
        self.adagrad_w_mode = 1 if adagrad_w_mode else 0
        self.set_grad_none = set_grad_none
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """One step; returns what `closure` gives. Raises RuntimeError for sparse gradients."""
        loss = loss_of(closure)
        scaling = scaling_of(self)
        for group in self.param_groups:
            parameters = self._trained(group)
            for parameter in parameters:
                if "sum" not in self.state[parameter]:
                    self.state[parameter]["sum"] = zeros_for(parameter)
            for some in alike(parameters, self._is_lent):
                operations.adagrad(
                    self._gradients(some),
                    some,
                    [self.state[parameter]["sum"] for parameter in some],
                    self._prepared(group, some, self._scaling_for(some, scaling)),
                    model_params=self._models(some),
                    eps=group["eps"],
                    weight_decay=group["weight_decay"],
                    decoupled=bool(self.adagrad_w_mode),
                )
                self._note_written(some)
        return loss

    def _read_steps(self, group: dict[str, Any]) -> None:
        """Steps are not counted here."""
