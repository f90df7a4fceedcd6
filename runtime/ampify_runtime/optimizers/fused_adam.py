"""Owns FusedAdam: Adam and AdamW in one pass over all parameters of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..kernels import operations
from .fused_optimizer import Closure, FusedOptimizer, Group, loss_of, refuse_amsgrad
from .gathering import alike, zeros_for
from .on_device import move_to_device, step_on_device, take_common_step, with_steps_by_parameter
from .scaling import Scaling, scaling_of, unscale_gradients


class FusedAdam(FusedOptimizer):
    """AdamW, or Adam with L2 regularization if not `adam_w_mode`; moments are float32 for half parameters too.

    - `set_grad_none`: what `zero_grad()` does without an argument.
    - `capturable`: learning rate and step count live on the device, so that a step can be captured in a CUDA graph,
      and torch's GradScaler leaves unscaling and skipping to the step, which then waits for nothing.
    - `master_weights` (needs `capturable`): half parameters have float32 masters, which the update works on. They are
      made at the first step, and saved in the state as "master_param"; apex does not save them.

    State dicts interchange with apex's, and with those of torch.optim.AdamW, or Adam if not `adam_w_mode`.
    Raises RuntimeError for `amsgrad`, or `master_weights` without `capturable`.
    """

    takes_model_gradients = True
    _choices = ("adam_w_mode", "set_grad_none", "capturable", "master_weights", "_step_supports_amp_scaling")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        set_grad_none: bool = True,
        capturable: bool = False,
        master_weights: bool = False,
    ) -> None:
        refuse_amsgrad("FusedAdam", amsgrad)
        if master_weights and not capturable:
            raise RuntimeError("FusedAdam: master_weights=True needs capturable=True; give both, or neither")
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.set_grad_none = set_grad_none
        self.capturable = capturable
        self.master_weights = master_weights
        # What torch's GradScaler asks for.
        self._step_supports_amp_scaling = capturable
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults)

    @property
    def param_groups_master(self) -> list[dict[str, list[Tensor | None]]]:
        """The float32 master of each parameter, by group; None where there is none (yet)."""
        return [
            {"params": [self.state[p].get("master_param") if p in self.state else None for p in group["params"]]}
            for group in self.param_groups
        ]

    def add_param_group(self, param_group: Group) -> None:
        """Train the parameters of `param_group` too."""
        super().add_param_group(param_group)
        if self.capturable:
            move_to_device(self.param_groups[-1])

    @torch.no_grad()
    def step(
        self,
        closure: Closure | None = None,
        grads: Any = None,
        output_params: Any = None,
        scale: Any = None,
        grad_norms: Any = None,
        grad_scaler: Any = None,
    ) -> Any:
        """One step; returns what `closure` gives. `grad_scaler`: torch's GradScaler, which gives itself.

        Raises RuntimeError for the arguments between, which apex dropped, and for sparse gradients.
        """
        if any(given is not None for given in (grads, output_params, scale, grad_norms)):
            raise RuntimeError(
                "FusedAdam.step: grads, output_params, scale and grad_norms are of an older apex; construct it like "
                "torch.optim.AdamW, and call step()"
            )
        loss = loss_of(closure)
        scaling = scaling_of(self, grad_scaler)
        for group in self.param_groups:
            parameters = self._trained(group)
            self._start(parameters)
            if self.capturable:
                self._step_on_device(group, parameters, scaling)
            else:
                for some in alike(parameters, lambda parameter: (self._history(parameter), self._is_lent(parameter))):
                    self._update(group, some, self._prepare(group, some, scaling, self._count(some, scaling)))
                self._note_count(group)
            unscale_gradients(parameters, scaling)
        return loss

    def _step_on_device(self, group: Group, parameters: Sequence[Tensor], scaling: Scaling) -> None:
        step: Tensor | None = None
        for some in alike(parameters, self._is_lent):
            # The step is counted once, with the first list; others count a copy from where it was.
            counted = step_on_device(self, group, parameters) if step is None else step
            step = counted.clone()
            self._update(group, some, self._prepare(group, some, scaling, counted))

    def _prepare(
        self, group: Group, parameters: Sequence[Tensor], scaling: Scaling, step: int | Tensor
    ) -> operations.StepState:
        return self._prepared(
            group,
            parameters,
            self._scaling_for(parameters, scaling),
            step=step,
            betas=group["betas"],
            bias_correction=bool(group["bias_correction"]),
        )

    def _update(self, group: Group, parameters: Sequence[Tensor], state: operations.StepState) -> None:
        for some in alike(parameters, lambda parameter: "master_param" in self.state[parameter]):
            states = [self.state[parameter] for parameter in some]
            mastered = "master_param" in states[0]
            operations.adam(
                self._gradients(some),
                [each["master_param"] for each in states] if mastered else some,
                [each["exp_avg"] for each in states],
                [each["exp_avg_sq"] for each in states],
                state,
                model_params=some if mastered else self._models(some),
                betas=group["betas"],
                eps=group["eps"],
                weight_decay=group["weight_decay"],
                decoupled=bool(self.adam_w_mode),
            )
            self._note_written(some)

    def _start(self, parameters: Sequence[Tensor]) -> None:
        for parameter in parameters:
            state = self.state[parameter]
            if "exp_avg" not in state:
                state["exp_avg"], state["exp_avg_sq"] = zeros_for(parameter), zeros_for(parameter)
            if self.master_weights and "master_param" not in state and parameter.dtype.itemsize < 4:
                state["master_param"] = parameter.detach().float()

    def state_dict(self) -> dict[str, Any]:
        """As torch's; the step is kept both by group, where apex reads it, and by parameter, where torch does."""
        saved: dict[str, Any] = super().state_dict()
        return with_steps_by_parameter(saved) if self.capturable else saved

    def _read_steps(self, group: Group) -> None:
        if not self.capturable:
            super()._read_steps(group)
            return
        take_common_step(self, group)
        move_to_device(group)

    def _refuse(self, group: Mapping[str, Any]) -> None:
        super()._refuse(group)
        decoupled = group.get("decoupled_weight_decay")
        if decoupled is not None and group.get("weight_decay") and bool(decoupled) != bool(self.adam_w_mode):
            raise ValueError(
                f"FusedAdam.load_state_dict: the state is of torch.optim.{'AdamW' if decoupled else 'Adam'}, whose "
                f"weight decay is another; construct FusedAdam with adam_w_mode={bool(decoupled)}"
            )
