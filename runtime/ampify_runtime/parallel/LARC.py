"""Owns LARC: layer-wise adaptive rates, put on any optimizer by scaling gradients before its step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer


class LARC(Optimizer):
    """An optimizer around `optimizer` that gives each parameter a rate of its own, by the ratio of its norm to its
    gradient's (You, Gitman, Ginsburg, 2017, arXiv:1708.03888).

    The local rate is `trust_coefficient * |w| / (|g| + weight_decay * |w| + eps)`. With `clip` the rate of a parameter
    is the lesser of it and the group's; without, their product. Weight decay joins the gradient before it is scaled. A
    parameter that is all zero, or whose gradient is, is left to `optimizer` without weight decay.

    Groups and state are those of `optimizer`. Nothing waits for the device.
    """

    def __init__(
        self, optimizer: Optimizer, trust_coefficient: float = 0.02, clip: bool = True, eps: float = 1e-8
    ) -> None:
        # Not the parent's: it would make groups and a state of its own.
        self.optim = optimizer
        self.trust_coefficient = trust_coefficient
        self.eps = eps
        self.clip = clip
        Optimizer.__setstate__(self, {})

    def __getstate__(self) -> dict[str, Any]:
        names = ("optim", "trust_coefficient", "eps", "clip")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return f"LARC({self.optim!r})"

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The defaults of the optimizer inside."""
        return self.optim.defaults

    @property
    def state(self) -> Any:
        """The state of the optimizer inside."""
        return self.optim.state

    @state.setter
    def state(self, value: Any) -> None:
        self.optim.state = value

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of the optimizer inside."""
        return self.optim.param_groups

    @param_groups.setter
    def param_groups(self, value: list[dict[str, Any]]) -> None:
        self.optim.param_groups = value

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer inside."""
        return self.optim.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load it into the optimizer inside."""
        self.optim.load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """That of the optimizer inside."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add it to the optimizer inside."""
        self.optim.add_param_group(param_group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Scale the gradients, in place, and step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        # The optimizer is not to decay a second time.
        decays = [group.get("weight_decay") for group in self.param_groups]
        try:
            for group in self.param_groups:
                self._scale_gradients(group)
            self.optim.step()
        finally:
            for group, decay in zip(self.param_groups, decays, strict=True):
                if decay is not None:
                    group["weight_decay"] = decay
        return loss

    @torch.no_grad()
    def _scale_gradients(self, group: dict[str, Any]) -> None:
        decay = group.get("weight_decay") or 0.0
        if "weight_decay" in group:
            group["weight_decay"] = 0.0
        for parameter in group["params"]:
            if parameter.grad is not None:
                self._scale_gradient(parameter, parameter.grad, decay, group["lr"])

    def _scale_gradient(self, parameter: torch.Tensor, grad: torch.Tensor, decay: float, rate: Any) -> None:
        size, slope = (torch.linalg.vector_norm(tensor, dtype=torch.float32) for tensor in (parameter, grad))
        local = self.trust_coefficient * size / (slope + size * decay + self.eps)
        if self.clip:
            local = (local / rate).clamp(max=1.0)
        known = (size != 0) & (slope != 0)
        grad.add_(parameter * torch.where(known, decay, 0.0).to(parameter.dtype))
        grad.mul_(torch.where(known, local, 1.0).to(grad.dtype))
