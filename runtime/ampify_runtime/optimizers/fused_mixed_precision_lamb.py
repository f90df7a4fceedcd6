"""Owns FusedMixedPrecisionLamb: LAMB with float32 masters of its own, decided upon on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..kernels import operations
from .fused_lamb import start_moments, stats_by_device
from .fused_optimizer import Closure, FusedOptimizer, Group, loss_of, refuse_amsgrad
from .gathering import alike, gradients_of, trained
from .on_device import move_to_device, step_on_device, take_common_step, with_steps_by_parameter
from .scaling import Scaling, scaling_of, unscale_gradients


class FusedMixedPrecisionLamb(FusedOptimizer):
    """LAMB whose learning rate, step count and decision about overflow stay on the device.

    Parameters of `reduced_precision_dtype` have float32 masters, which the update works on. They are made at the first
    step, and saved in the state as "master_param"; apex does not save them. `step`: the steps made before. The other
    choices are those of FusedLAMB. torch's GradScaler leaves unscaling and skipping to the step, which then waits for
    nothing. Raises RuntimeError for `amsgrad`.
    """

    _choices = ("adam_w_mode", "use_nvlamb", "reduced_precision_dtype", "_step_supports_amp_scaling")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        step: int = 0,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
        reduced_precision_dtype: torch.dtype | None = None,
    ) -> None:
        refuse_amsgrad("FusedMixedPrecisionLamb", amsgrad)
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.use_nvlamb = use_nvlamb
        self.reduced_precision_dtype = reduced_precision_dtype
        # What torch's GradScaler asks for.
        self._step_supports_amp_scaling = True
        defaults = {
            "lr": lr,
            "step": step,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "max_grad_norm": max_grad_norm,
        }
        super().__init__(params, defaults)

    @property
    def param_groups_full_precision(self) -> list[dict[str, list[Tensor | None]]]:
        """The float32 master of each parameter, by group; None where there is none (yet)."""
        return [
            {"params": [self.state[p].get("master_param") if p in self.state else None for p in group["params"]]}
            for group in self.param_groups
        ]

    def add_param_group(self, param_group: Group) -> None:
        """Train the parameters of `param_group` too."""
        super().add_param_group(param_group)
        move_to_device(self.param_groups[-1])

    @torch.no_grad()
    def step(self, closure: Closure | None = None, grad_scaler: Any = None) -> Any:
        """One step; returns what `closure` gives. `grad_scaler`: torch's GradScaler, which gives itself.

        Raises RuntimeError for sparse gradients.
        """
        loss = loss_of(closure)
        scaling = scaling_of(self, grad_scaler)
        lists = [trained(self, group) for group in self.param_groups]
        stats = stats_by_device([parameter for parameters in lists for parameter in parameters])
        for group, parameters in zip(self.param_groups, lists, strict=True):
            if parameters:
                self._start(parameters)
                self._step_group(group, parameters, scaling, stats[parameters[0].device])
                unscale_gradients(parameters, scaling)
        return loss

    def _step_group(
        self, group: Group, parameters: Sequence[Tensor], scaling: Scaling, stats: operations.GradStats
    ) -> None:
        state = self._prepared(
            group,
            parameters,
            scaling,
            step=step_on_device(self, group, parameters),
            betas=group["betas"],
            bias_correction=bool(group["bias_correction"]),
            # Whether they overflowed is the scaler's to say.
            stats=operations.GradStats(stats.sums, torch.zeros_like(stats.found_inf)),
            max_norm=float(self.defaults["max_grad_norm"] or 0.0),
        )
        for some in alike(parameters, lambda parameter: "master_param" in self.state[parameter]):
            states = [self.state[parameter] for parameter in some]
            mastered = "master_param" in states[0]
            operations.lamb(
                gradients_of(some),
                [each["master_param"] for each in states] if mastered else some,
                [each["exp_avg"] for each in states],
                [each["exp_avg_sq"] for each in states],
                state,
                model_params=some if mastered else None,
                betas=group["betas"],
                eps=group["eps"],
                weight_decay=group["weight_decay"],
                decoupled=bool(self.adam_w_mode),
                grad_averaging=bool(group["grad_averaging"]),
                use_nvlamb=bool(self.use_nvlamb),
            )

    def _start(self, parameters: Sequence[Tensor]) -> None:
        start_moments(self, parameters)
        for parameter in parameters:
            if parameter.dtype is self.reduced_precision_dtype and parameter.dtype.itemsize < 4:
                self.state[parameter].setdefault("master_param", parameter.detach().float())

    def state_dict(self) -> dict[str, Any]:
        """As torch's; the step is kept both by group, where apex reads it, and by parameter."""
        return with_steps_by_parameter(super().state_dict())

    def _read_steps(self, group: Group) -> None:
        take_common_step(self, group)
        move_to_device(group)
