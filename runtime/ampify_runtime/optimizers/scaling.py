"""Owns what a step is told of loss scaling: by torch's GradScaler, by attributes, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import OptState
from torch.optim import Optimizer

from ..kernels import operations
from .gathering import alike, gradients_of


@dataclass(frozen=True, slots=True)
class Scaling:
    """What gradients are multiplied by, and whether they overflowed; float32, one element each; None: not at all."""

    scale: Tensor | None = None
    found_inf: Tensor | None = None

    def on(self, device: torch.device) -> Scaling:
        """The same on `device`."""
        return Scaling(_moved(self.scale, device), _moved(self.found_inf, device))


def scaling_of(optimizer: Optimizer, grad_scaler: Any = None) -> Scaling:
    """What `optimizer`'s gradients are scaled by in this step.

    `grad_scaler` is torch's GradScaler, as it gives itself to a step that takes one; it is told of overflow. Without
    it, the attributes `grad_scale` and `found_inf` say, which torch's GradScaler sets on other optimizers.
    """
    if grad_scaler is None:
        return Scaling(getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None))
    if not grad_scaler.is_enabled():
        return Scaling()
    # GradScaler has no public way to ask what it knows of an optimizer, nor to tell it of overflow.
    known = grad_scaler._per_optimizer_states[id(optimizer)]
    if known["stage"] is OptState.UNSCALED:
        return Scaling(None, _any(known["found_inf_per_device"].values()))
    known["found_inf_per_device"] = _overflows(optimizer)
    return Scaling(grad_scaler._get_scale_async(), _any(known["found_inf_per_device"].values()))


def unscale_gradients(parameters: Sequence[Tensor], scaling: Scaling) -> None:
    """Leave unscaled gradients behind a step that was told of a scale, as torch's fused optimizers and apex's do.

    A step that overflowed leaves them as they are.
    """
    if scaling.scale is None:
        return
    for some in alike(parameters, lambda _: None):
        there, gradients = scaling.on(some[0].device), gradients_of(some)
        factor = there.scale.reshape(()).reciprocal()  # type: ignore[union-attr]
        if there.found_inf is not None:
            factor = torch.where(there.found_inf.reshape(()) != 0, 1.0, factor)
        operations.scale(gradients, gradients, factor)


def _overflows(optimizer: Optimizer) -> dict[torch.device, Tensor]:
    """Whether gradients overflowed, by device; float32, shape []."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    lists = alike([parameter for parameter in parameters if parameter.grad is not None], lambda _: None)
    return {some[0].device: operations.grad_stats(gradients_of(some)).found_inf for some in lists}


def _any(flags: Iterable[Tensor]) -> Tensor | None:
    flags = list(flags)
    if not flags:
        return None
    return torch.stack([flag.reshape(()).to(flags[0].device, non_blocking=True) for flag in flags]).amax()


def _moved(value: Tensor | None, device: torch.device) -> Tensor | None:
    return None if value is None else value.to(device, non_blocking=True)
