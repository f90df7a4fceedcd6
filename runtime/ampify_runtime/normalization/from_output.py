"""Owns the backward of the norms from their output, for which the input need not be kept."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels.reference.layers import gradients


def layer_norm_backward_from_output(
    grad: Tensor, output: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor | None, input_type: torch.dtype
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of layer normalization by the input (of `input_type`), weight and bias, from its output."""
    rows = _rows(grad, rstd)
    normalized = _rows(output, rstd) if bias is None else _rows(output, rstd) - bias.reshape(-1).to(rstd.dtype)
    dx, dweight = gradients(rows, _without(weight, normalized), rstd, weight, centred=True)
    dbias = None if bias is None else rows.sum(0).reshape(bias.shape).to(bias.dtype)
    return dx.to(input_type).reshape(output.shape), dweight, dbias


def rms_norm_backward_from_output(
    grad: Tensor, output: Tensor, rstd: Tensor, weight: Tensor | None, input_type: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Gradients of RMS normalization by the input (of `input_type`) and weight, from its output."""
    normalized = _without(weight, _rows(output, rstd))
    dx, dweight = gradients(_rows(grad, rstd), normalized, rstd, weight, centred=False)
    return dx.to(input_type).reshape(output.shape), dweight


def _rows(tensor: Tensor, rstd: Tensor) -> Tensor:
    return tensor.to(rstd.dtype).reshape(rstd.numel(), tensor.numel() // max(rstd.numel(), 1))


def _without(weight: Tensor | None, weighted: Tensor) -> Tensor:
    """`weighted` over `weight`; 0 where the weight is 0, since there the output has forgotten the input."""
    if weight is None:
        return weighted
    factors = weight.reshape(-1).to(weighted.dtype)
    return torch.where(factors == 0, 0.0, weighted / torch.where(factors == 0, 1.0, factors))
