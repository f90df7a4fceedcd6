"""Owns FusedLAMB: LAMB with its clip by the norm of all gradients, in two passes over all parameters of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..kernels import operations
from .fused_optimizer import Closure, FusedOptimizer, Group, loss_of, refuse_amsgrad
from .gathering import alike, gradients_of, zeros_for
from .scaling import Scaling, scaling_of


class FusedLAMB(FusedOptimizer):
    """LAMB; moments are float32 for half parameters too.

    - `adam_w_mode`: decoupled weight decay; else it is added to the gradient.
    - `grad_averaging`: whether the gradient is weighed by 1 - beta1 in the first moment, or by 1.
    - `max_grad_norm`: the 2-norm of all gradients of all groups is clipped to it first; 0: not.
    - `use_nvlamb`: the trust ratio also for groups without weight decay.
    - `set_grad_none`: what `zero_grad()` does without an argument.

    Gradients are left as they are; apex writes into them. State dicts interchange with apex's.
    Raises RuntimeError for `amsgrad`.
    """

    takes_model_gradients = True
    _choices = ("adam_w_mode", "set_grad_none", "use_nvlamb")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
    ) -> None:
        refuse_amsgrad("FusedLAMB", amsgrad)
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.set_grad_none = set_grad_none
        self.use_nvlamb = use_nvlamb
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "max_grad_norm": max_grad_norm,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """One step; returns what `closure` gives. Raises RuntimeError for sparse gradients."""
        loss = loss_of(closure)
        scaling = scaling_of(self)
        lists = [self._trained(group) for group in self.param_groups]
        stats = self._stats([parameter for parameters in lists for parameter in parameters])
        for group, parameters in zip(self.param_groups, lists, strict=True):
            start_moments(self, parameters)
            for some in alike(parameters, lambda parameter: (self._history(parameter), self._is_lent(parameter))):
                self._update(group, some, scaling, stats[some[0].device])
            self._note_count(group)
        return loss

    def _stats(self, parameters: Sequence[Tensor]) -> dict[torch.device, operations.GradStats]:
        """What all gradients together tell, by device; where amp lent some, of unscaled ones."""
        lists = alike(parameters, self._is_lent)
        stats = [self._stats_of(some) for some in lists]
        devices = dict.fromkeys(some[0].device for some in lists)
        return {device: operations.GradStats.merged(stats, device) for device in devices}

    def _stats_of(self, parameters: Sequence[Tensor]) -> operations.GradStats:
        stats = operations.grad_stats(self._gradients(parameters))
        scale = self._lent_scale(parameters)
        return stats if scale is None else operations.GradStats(stats.sums / scale.square(), stats.found_inf)

    def _lent_scale(self, parameters: Sequence[Tensor]) -> Tensor | None:
        """What the lent gradients of `parameters` are multiplied by; None if they have none, or by nothing."""
        if self.loan is None or self.loan.scale is None or not self._is_lent(parameters[0]):
            return None
        return self.loan.scale.to(parameters[0].device, torch.float32, non_blocking=True)

    def _update(
        self, group: Group, parameters: Sequence[Tensor], scaling: Scaling, stats: operations.GradStats
    ) -> None:
        state = self._prepared(
            group,
            parameters,
            scaling,
            step=self._count(parameters, scaling),
            betas=group["betas"],
            bias_correction=bool(group["bias_correction"]),
            # Overflow is for loss scaling to see; without it, as in apex, a step goes on with what it is given.
            stats=operations.GradStats(stats.sums, torch.zeros_like(stats.found_inf)),
            max_norm=float(self.defaults["max_grad_norm"] or 0.0),
        )
        scale = self._lent_scale(parameters)
        if scale is not None:
            # The norm that the clip went by is of unscaled gradients already.
            state.grad_factor.div_(scale)
        states = [self.state[parameter] for parameter in parameters]
        operations.lamb(
            self._gradients(parameters),
            parameters,
            [each["exp_avg"] for each in states],
            [each["exp_avg_sq"] for each in states],
            state,
            model_params=self._models(parameters),
            betas=group["betas"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            decoupled=bool(self.adam_w_mode),
            grad_averaging=bool(group["grad_averaging"]),
            use_nvlamb=bool(self.use_nvlamb),
        )
        self._note_written(parameters)


def start_moments(optimizer: FusedOptimizer, parameters: Sequence[Tensor]) -> None:
    """Moments of zero for the parameters that have none."""
    for parameter in parameters:
        state = optimizer.state[parameter]
        if "exp_avg" not in state:
            state["exp_avg"], state["exp_avg_sq"] = zeros_for(parameter), zeros_for(parameter)


def stats_by_device(parameters: Sequence[Tensor]) -> dict[torch.device, operations.GradStats]:
    """What all gradients of `parameters` together tell, on each device that has some."""
    lists = alike(parameters, lambda _: None)
    stats = [operations.grad_stats(gradients_of(some)) for some in lists]
    devices = [some[0].device for some in lists]
    if len(devices) == 1:
        return {devices[0]: stats[0]}
    return {device: operations.GradStats.merged(stats, device) for device in devices}
