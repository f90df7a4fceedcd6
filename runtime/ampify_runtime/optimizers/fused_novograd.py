"""Owns FusedNovoGrad: NovoGrad in one pass over all parameters of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..kernels import operations
from .fused_optimizer import Closure, FusedOptimizer, Group, loss_of, refuse_amsgrad
from .gathering import alike, zeros_for
from .scaling import Scaling, scaling_of


class FusedNovoGrad(FusedOptimizer):
    """NovoGrad; moments are float32 for half parameters too.

    - `reg_inside_moment`: the gradient is divided by its norm and decayed before it enters the moment, as in the paper.
    - `grad_averaging`: whether the gradient is weighed by 1 - beta1 in the moment, or by 1.
    - `norm_type`: 2, or 0 for the largest magnitude.
    - `init_zero`: whether norms are averaged from 0 on; else the first one starts the average.
    - `set_grad_none`: what `zero_grad()` does without an argument.

    State dicts interchange with apex's: norms are saved in the group's "exp_avg_sq", those of 16-bit parameters first.
    Raises RuntimeError for `amsgrad`, ValueError for another `norm_type`.
    """

    takes_model_gradients = True
    _choices = ("moment_mode", "set_grad_none")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        reg_inside_moment: bool = False,
        grad_averaging: bool = True,
        norm_type: int = 2,
        init_zero: bool = False,
        set_grad_none: bool = True,
    ) -> None:
        refuse_amsgrad("FusedNovoGrad", amsgrad)
        if norm_type not in (0, 2):
            raise ValueError(f"FusedNovoGrad: norm_type={norm_type}; use 2, or 0 for the largest magnitude")
        self.moment_mode = 0 if reg_inside_moment else 1
        self.set_grad_none = set_grad_none
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "norm_type": norm_type,
            "init_zero": init_zero,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """One step; returns what `closure` gives. Raises RuntimeError for sparse gradients."""
        loss = loss_of(closure)
        scaling = scaling_of(self)
        for group in self.param_groups:
            parameters = self._trained(group)
            for parameter in parameters:
                if "exp_avg" not in self.state[parameter]:
                    self.state[parameter]["exp_avg"] = zeros_for(parameter)
            for some in alike(parameters, self._kind_of):
                self._update(group, some, scaling)
            self._note_count(group)
        return loss

    def skips_by_itself(self) -> bool:
        """Not in a parameter's first step, whose norm starts the average; see FusedOptimizer."""
        started = all(self._has_norm(p) for group in self.param_groups for p in self._trained(group))
        return started and super().skips_by_itself()

    def _kind_of(self, parameter: Tensor) -> tuple[tuple[str, int], bool, bool]:
        return self._history(parameter), self._has_norm(parameter), self._is_lent(parameter)

    def _has_norm(self, parameter: Tensor) -> bool:
        return "grad_norm" in self.state.get(parameter, {})

    def _update(self, group: Group, parameters: Sequence[Tensor], scaling: Scaling) -> None:
        states = [self.state[parameter] for parameter in parameters]
        gradients = self._gradients(parameters)
        started = self._has_norm(parameters[0])
        stats = None if group["norm_type"] == 0 else operations.grad_stats(gradients)
        norms = operations.max_norms(gradients) if stats is None else stats.sums.sqrt()
        blended = torch.stack([each["grad_norm"] for each in states]) if started else torch.zeros_like(norms)
        operations.novograd(
            gradients,
            parameters,
            [each["exp_avg"] for each in states],
            blended,
            self._prepared(
                group,
                parameters,
                self._scaling_for(parameters, scaling),
                step=self._count(parameters, scaling),
                betas=group["betas"],
                bias_correction=bool(group["bias_correction"]),
            ),
            norms,
            model_params=self._models(parameters),
            betas=group["betas"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            grad_averaging=bool(group["grad_averaging"]),
            decay_in_moment=self.moment_mode == 0,
            max_norm_kind=group["norm_type"] == 0,
            first_run=not started and not group["init_zero"],
        )
        for each, norm in zip(states, blended.unbind(), strict=True):
            each["grad_norm"] = norm
        self._note_written(parameters)

    def state_dict(self) -> dict[str, Any]:
        """As torch's, with norms where apex has them."""
        saved: dict[str, Any] = super().state_dict()
        states = {identity: dict(state) for identity, state in saved["state"].items()}
        groups = []
        for group, live in zip(saved["param_groups"], self.param_groups, strict=True):
            half = [identity for identity, p in zip(group["params"], live["params"], strict=True) if _is_half(p)]
            others = [identity for identity in group["params"] if identity not in set(half)]
            lists = [[states[key].pop("grad_norm") for key in keys if key in states] for keys in (half, others)]
            groups.append({**group, "exp_avg_sq": [_vector(norms, live) for norms in lists]} if any(lists) else group)
        return {**saved, "state": states, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from `state_dict`, ours or apex's. Raises ValueError if it has not a norm for each moment."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            lists = group.pop("exp_avg_sq", None)
            started = [parameter for parameter in group["params"] if "exp_avg" in self.state.get(parameter, {})]
            for norms, half in zip(lists or (), (True, False), strict=True):
                self._spread(norms, [parameter for parameter in started if _is_half(parameter) is half])

    def _spread(self, norms: Tensor, parameters: Sequence[Tensor]) -> None:
        if norms.numel() != len(parameters):
            raise ValueError(
                f"FusedNovoGrad.load_state_dict: the saved group has {norms.numel()} norms for {len(parameters)} "
                "parameters of one precision; load it into an optimizer of the parameters and types it was saved with"
            )
        for norm, parameter in zip(norms.float().unbind(), parameters, strict=True):
            self.state[parameter]["grad_norm"] = norm.to(parameter.device, copy=True)


def _is_half(parameter: Tensor) -> bool:
    return parameter.dtype.itemsize < 4


def _vector(norms: Sequence[Tensor], group: Group) -> Tensor:
    device = group["params"][0].device
    return torch.stack([norm.to(device) for norm in norms]) if norms else torch.zeros(0, device=device)
