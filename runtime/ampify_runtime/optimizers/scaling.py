"""Owns what a step is told of loss scaling: by torch's GradScaler, by attributes, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import OptState
from torch.optim import Optimizer


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
    # GradScaler has no public way to ask what it knows of an optimizer.
    known = grad_scaler._per_optimizer_states[id(optimizer)]
    unscaled = known["stage"] is OptState.UNSCALED
    if not unscaled:
        grad_scaler._check_inf_per_device(optimizer)
    flags = list(known["found_inf_per_device"].values())
    found_inf = torch.stack([flag.reshape(()).to(flags[0].device) for flag in flags]).amax() if flags else None
    return Scaling(None if unscaled else grad_scaler._get_scale_async(), found_inf)


def _moved(value: Tensor | None, device: torch.device) -> Tensor | None:
    return None if value is None else value.to(device, non_blocking=True)
