"""Owns which operators do the work of a function of torch, given by the module and the name that scripts know it by."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch.nn import functional

_UPSAMPLINGS = tuple(
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d "
    "_upsample_bilinear2d_aa _upsample_bicubic2d_aa".split()
)
_NORMS = ("norm", "linalg_vector_norm", "frobenius_norm", "nuclear_norm")
_PREFIXES = ((torch, ""), (torch.Tensor, ""), (functional, ""), (torch.linalg, "linalg_"), (torch.special, "special_"))
# Of `torch.nn.functional`, where the operator has another name, or another function has the operator's.
_FUNCTIONAL: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cross_entropy": ("cross_entropy_loss",),
        "nll_loss": ("nll_loss_nd", "nll_loss", "nll_loss2d"),
        "grid_sample": ("grid_sampler",),
        "affine_grid": ("affine_grid_generator",),
        "logsigmoid": ("log_sigmoid",),
        "fold": ("col2im",),
        "unfold": ("im2col",),
        "interpolate": _UPSAMPLINGS,
        "upsample": _UPSAMPLINGS,
    }
)
_METHODS: Mapping[str, str] = MappingProxyType(
    {"__radd__": "add", "__rmul__": "mul", "__rsub__": "rsub", "__truediv__": "div", "__rpow__": "pow"}
    | {f"__{name}__": name for name in "add sub mul pow matmul eq ne lt le gt ge neg abs".split()}
)


def operators_of(module: Any, name: str) -> tuple[str, ...]:
    """The operators of torch.ops.aten behind `module.name`, without overloads; none if it is not torch's, or Python."""
    prefix = next((prefix for known, prefix in _PREFIXES if known is module), None)
    if prefix is None:
        return ()
    if module is functional and name in _FUNCTIONAL:
        return _FUNCTIONAL[name]
    if name == "norm" and not prefix:
        return _NORMS
    operator = prefix + _METHODS.get(name, name)
    return (operator,) if functional_overloads(operator) else ()


def functional_overloads(operator: str) -> list[Any]:
    """The overloads of `operator` that write to none of their arguments."""
    return [overload for overload in _overloads(operator) if not overload._schema.is_mutable]


def writing_overloads(operator: str) -> list[Any]:
    """The overloads of an operator such as `exp_`, which write to their first argument and return it."""
    return [overload for overload in _overloads(operator) if overload._schema.is_mutable]


def takes_several_tensors(overload: Any) -> bool:
    """Whether an overload has two arguments that are tensors, or one that is a list of them."""
    types = [str(argument.type) for argument in overload._schema.arguments]
    return any("List[Tensor]" in name for name in types) or sum("Tensor" in name for name in types) > 1


def _overloads(operator: str) -> list[Any]:
    if not hasattr(torch.ops.aten, operator):
        return []
    packet = getattr(torch.ops.aten, operator)
    return [getattr(packet, name) for name in packet.overloads()]
