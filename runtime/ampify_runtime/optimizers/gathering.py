"""Owns how a step gathers what it works on: the parameters with gradients, in lists that one operation can take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


def state_type(parameter: Tensor) -> torch.dtype:
    """The type of a parameter's state: float64 for float64, float32 for all else."""
    return torch.float64 if parameter.dtype is torch.float64 else torch.float32


def zeros_for(parameter: Tensor) -> Tensor:
    """Zeros of the shape and layout of `parameter`, in the type of its state."""
    return torch.zeros_like(parameter, dtype=state_type(parameter), memory_format=torch.preserve_format)


def trained(optimizer: Optimizer, group: dict[str, Any]) -> list[Tensor]:
    """The parameters of `group` that have a gradient.

    Raises RuntimeError if a gradient is sparse, or a parameter is not of a floating-point type.
    """
    parameters: list[Tensor] = [parameter for parameter in group["params"] if parameter.grad is not None]
    for parameter in parameters:
        problem = _problem_of(parameter)
        if problem:
            name, shape = type(optimizer).__name__, tuple(parameter.shape)
            raise RuntimeError(f"{name}.step: a parameter of shape {shape} {problem}")
    return parameters


def _problem_of(parameter: Tensor) -> str | None:
    if parameter.grad is not None and parameter.grad.is_sparse:
        return "has a sparse gradient; use torch.optim.SparseAdam for it, or an embedding with sparse=False"
    if not parameter.is_floating_point():
        return f"is of {parameter.dtype}; use an optimizer of torch.optim for it"
    return None


def alike(parameters: Iterable[Tensor], key: Callable[[Tensor], Any]) -> list[list[Tensor]]:
    """`parameters` in lists of one device and one value of `key`, in the order of their first."""
    lists: dict[Any, list[Tensor]] = {}
    for parameter in parameters:
        lists.setdefault((parameter.device, key(parameter)), []).append(parameter)
    return list(lists.values())


def gradients_of(parameters: Iterable[Tensor]) -> list[Tensor]:
    """The gradients of parameters that have one each."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
