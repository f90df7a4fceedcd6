"""Owns the normalization layers with apex's names: how they choose the type of their output."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from .functional import (
    FusedLayerNormAffineFunction,
    FusedLayerNormAffineMixedDtypesFunction,
    FusedLayerNormFunction,
    FusedRMSNormAffineFunction,
    FusedRMSNormAffineMixedDtypesFunction,
    FusedRMSNormFunction,
    fused_layer_norm,
    fused_layer_norm_affine,
    fused_rms_norm,
    fused_rms_norm_affine,
    manual_rms_norm,
    mixed_dtype_fused_layer_norm_affine,
    mixed_dtype_fused_rms_norm_affine,
)

__all__ = [
    "FusedLayerNorm",
    "FusedLayerNormAffineFunction",
    "FusedLayerNormAffineMixedDtypesFunction",
    "FusedLayerNormFunction",
    "FusedRMSNorm",
    "FusedRMSNormAffineFunction",
    "FusedRMSNormAffineMixedDtypesFunction",
    "FusedRMSNormFunction",
    "MixedFusedLayerNorm",
    "MixedFusedRMSNorm",
    "fused_layer_norm",
    "fused_layer_norm_affine",
    "fused_rms_norm",
    "fused_rms_norm_affine",
    "manual_rms_norm",
    "mixed_dtype_fused_layer_norm_affine",
    "mixed_dtype_fused_rms_norm_affine",
]


class _Norm(nn.Module):
    """What both norms have: a shape, an epsilon, and parameters of that shape or none."""

    _has_bias = True
    weight: Any
    bias: Any

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = torch.Size(shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.memory_efficient = memory_efficient
        for name in ("weight", "bias") if self._has_bias else ("weight",):
            self.register_parameter(name, nn.Parameter(torch.empty(shape)) if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights of one, biases of zero."""
        if self.elementwise_affine:
            nn.init.ones_(self.weight)
            if self._has_bias:
                nn.init.zeros_(self.bias)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class FusedLayerNorm(_Norm):
    """Layer normalization over the last dimensions, of shape `normalized_shape`, with statistics in fp32.

    The output has the input's type, whatever the parameters' is; under autocast the input is cast and the output has
    autocast's type, as in apex (torch's own layer gives fp32 there). With `memory_efficient` the backward works from
    the output, so that the input need not be kept; where a weight is zero, its gradient is then zero.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`input` of shape [*, *normalized_shape] gives the same shape."""
        if self.elementwise_affine:
            return fused_layer_norm_affine(
                input, self.weight, self.bias, self.normalized_shape, self.eps, self.memory_efficient
            )
        return fused_layer_norm(input, self.normalized_shape, self.eps, self.memory_efficient)


class FusedRMSNorm(_Norm):
    """Division by the root mean square over the last dimensions, of shape `normalized_shape`, computed in fp32.

    The output has the input's type, whatever the weight's is; under autocast it has autocast's type, as in apex. With
    `memory_efficient` the backward works from the output, so that the input need not be kept; where a weight is zero,
    its gradient is then zero.
    """

    _has_bias = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`input` of shape [*, *normalized_shape] gives the same shape."""
        if self.elementwise_affine:
            return fused_rms_norm_affine(input, self.weight, self.normalized_shape, self.eps, self.memory_efficient)
        return fused_rms_norm(input, self.normalized_shape, self.eps, self.memory_efficient)


class MixedFusedLayerNorm(FusedLayerNorm):
    """FusedLayerNorm whose output has the parameters' type, whatever the input's is; under autocast, autocast's."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, *, memory_efficient: bool = False, **kwargs: Any
    ) -> None:
        _require_affine("MixedFusedLayerNorm", kwargs)
        super().__init__(normalized_shape, eps, True, memory_efficient)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`input` of shape [*, *normalized_shape] gives the same shape."""
        return mixed_dtype_fused_layer_norm_affine(
            input, self.weight, self.bias, self.normalized_shape, self.eps, self.memory_efficient
        )


class MixedFusedRMSNorm(FusedRMSNorm):
    """FusedRMSNorm whose output has the weight's type, whatever the input's is; under autocast, autocast's."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, *, memory_efficient: bool = False, **kwargs: Any
    ) -> None:
        _require_affine("MixedFusedRMSNorm", kwargs)
        super().__init__(normalized_shape, eps, True, memory_efficient)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`input` of shape [*, *normalized_shape] gives the same shape."""
        return mixed_dtype_fused_rms_norm_affine(
            input, self.weight, self.normalized_shape, self.eps, self.memory_efficient
        )


def _require_affine(name: str, options: dict[str, Any]) -> None:
    if "elementwise_affine" in options:
        if not options.pop("elementwise_affine"):
            raise RuntimeError(f"{name}: elementwise_affine=False is not available; use {name.removeprefix('Mixed')}")
        warnings.warn(f"{name} always has elementwise_affine=True; leave the argument out", stacklevel=3)
    if options:
        raise TypeError(f"{name}: unexpected argument {next(iter(options))!r}")
