"""Layer and RMS normalization of mixed types in plain torch, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .reading import wide_type


@torch.no_grad()
def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    out_dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """`operations.layer_norm` in plain torch."""
    rows = _rows(x, normalized_shape, wide_type(x.dtype))
    mean = rows.mean(1)
    centred = rows - mean[:, None]
    rstd = (centred.square().mean(1) + eps).rsqrt()
    return _affine(centred * rstd[:, None], weight, bias).to(out_dtype).reshape(x.shape), mean, rstd


@torch.no_grad()
def layer_norm_backward(
    grad: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """`operations.layer_norm_backward` in plain torch."""
    normalized = (_rows(x, normalized_shape, rstd.dtype) - mean[:, None]) * rstd[:, None]
    grad = _rows(grad, normalized_shape, rstd.dtype)
    dx, dweight = gradients(grad, normalized, rstd, weight, centred=True)
    dbias = None if bias is None else grad.sum(0).reshape(bias.shape).to(bias.dtype)
    return dx.to(x.dtype).reshape(x.shape), dweight, dbias


@torch.no_grad()
def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float, out_dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """`operations.rms_norm` in plain torch."""
    rows = _rows(x, normalized_shape, wide_type(x.dtype))
    rstd = (rows.square().mean(1) + eps).rsqrt()
    return _affine(rows * rstd[:, None], weight, None).to(out_dtype).reshape(x.shape), rstd


@torch.no_grad()
def rms_norm_backward(
    grad: Tensor, x: Tensor, normalized_shape: Sequence[int], rstd: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """`operations.rms_norm_backward` in plain torch."""
    normalized = _rows(x, normalized_shape, rstd.dtype) * rstd[:, None]
    dx, dweight = gradients(_rows(grad, normalized_shape, rstd.dtype), normalized, rstd, weight, centred=False)
    return dx.to(x.dtype).reshape(x.shape), dweight


def gradients(
    grad: Tensor, normalized: Tensor, rstd: Tensor, weight: Tensor | None, *, centred: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradients by the input, of the wide type and shape [rows, columns], and by the weight, of its own.

    `normalized` is the output before weight and bias; `centred`: of layer normalization.
    """
    weighted = grad if weight is None else grad * weight.detach().reshape(-1).to(grad.dtype)
    dx = weighted - normalized * (weighted * normalized).mean(1, keepdim=True)
    if centred:
        dx = dx - weighted.mean(1, keepdim=True)
    dweight = None if weight is None else (grad * normalized).sum(0).reshape(weight.shape).to(weight.dtype)
    return dx * rstd[:, None], dweight


def _rows(tensor: Tensor, normalized_shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    columns = math.prod(normalized_shape)
    return tensor.detach().to(dtype).reshape(tensor.numel() // columns if columns else 0, columns)


def _affine(normalized: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        normalized = normalized * weight.detach().reshape(-1).to(normalized.dtype)
    return normalized if bias is None else normalized + bias.detach().reshape(-1).to(normalized.dtype)
