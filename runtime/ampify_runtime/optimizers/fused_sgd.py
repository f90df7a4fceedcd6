"""Owns FusedSGD: gradient descent with momentum in one pass over all parameters of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..kernels import operations
from .fused_optimizer import Closure, FusedOptimizer, Group, loss_of
from .gathering import alike, zeros_for
from .scaling import Scaling, scaling_of


class _Required:
    """The default of an argument that has none."""

    def __repr__(self) -> str:
        return "<required parameter>"


_REQUIRED = _Required()


class FusedSGD(FusedOptimizer):
    """torch.optim.SGD; momentum is float32 for half parameters too.

    `wd_after_momentum` adds the decay to what the momentum gives instead of to the gradient. `materialize_master_grads`
    is of amp's masters: False lets them do without gradients of their own. `set_grad_none`: what `zero_grad()` does
    without an argument. State dicts interchange with apex's and torch.optim.SGD's.
    Raises ValueError for values that cannot be.
    """

    takes_model_gradients = True
    _choices = ("wd_after_momentum", "set_grad_none")

    def __init__(
        self,
        params: Any,
        lr: Any = _REQUIRED,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        wd_after_momentum: bool = False,
        materialize_master_grads: bool = True,
        set_grad_none: bool = False,
    ) -> None:
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            if value is not _REQUIRED and value < 0.0:
                raise ValueError(f"FusedSGD: {name}={value} is below 0")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(f"FusedSGD: nesterov needs momentum above 0 ({momentum}) and no dampening ({dampening})")
        if lr is _REQUIRED and any("lr" not in group for group in _groups(params)):
            raise ValueError("FusedSGD: lr is missing; give it, or one in each parameter group")
        self.wd_after_momentum = wd_after_momentum
        self.materialize_master_grads = materialize_master_grads
        self.set_grad_none = set_grad_none
        # What gradients are multiplied by; apex's amp sets it before a step.
        self.most_recent_scale = 1.0
        self.scale_set_by_backward = False
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        vars(self).setdefault("most_recent_scale", 1.0)
        vars(self).setdefault("scale_set_by_backward", False)
        for group in self.param_groups:
            group.setdefault("nesterov", False)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """One step; returns what `closure` gives. Raises RuntimeError for sparse gradients."""
        loss = loss_of(closure)
        scaling = self._scaling()
        for group in self.param_groups:
            for some in alike(self._trained(group), lambda p: (self._has_momentum(p), self._is_lent(p))):
                self._update(group, some, scaling)
        self.most_recent_scale = 1.0
        self.scale_set_by_backward = False
        return loss

    def skips_by_itself(self) -> bool:
        """Not in a parameter's first step, whose gradient starts the momentum; see FusedOptimizer."""
        groups = [group for group in self.param_groups if group["momentum"]]
        started = all(self._has_momentum(parameter) for group in groups for parameter in self._trained(group))
        return started and super().skips_by_itself()

    def _scaling(self) -> Scaling:
        told = scaling_of(self)
        if told.scale is None and self.most_recent_scale != 1.0:
            return Scaling(torch.tensor(float(self.most_recent_scale)), told.found_inf)
        return told

    def _has_momentum(self, parameter: Tensor) -> bool:
        return parameter in self.state and self.state[parameter].get("momentum_buffer") is not None

    def _update(self, group: Group, parameters: Sequence[Tensor], scaling: Scaling) -> None:
        momentum = float(group["momentum"])
        first_run = not self._has_momentum(parameters[0])
        for parameter in parameters if momentum and first_run else ():
            self.state[parameter]["momentum_buffer"] = zeros_for(parameter)
        operations.sgd(
            self._gradients(parameters),
            parameters,
            [self.state[parameter]["momentum_buffer"] for parameter in parameters] if momentum else None,
            self._prepared(group, parameters, self._scaling_for(parameters, scaling)),
            model_params=self._models(parameters),
            momentum=momentum,
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            weight_decay=group["weight_decay"],
            wd_after_momentum=self.wd_after_momentum,
            first_run=first_run,
        )
        self._note_written(parameters)

    def _read_steps(self, group: Group) -> None:
        """Steps are not counted here."""


def _groups(params: Any) -> list[dict[str, Any]]:
    listed = params if isinstance(params, (list, tuple)) else []
    return [group for group in listed if isinstance(group, dict)] or [{}]
