"""LayerNorm and RMSNorm where input and weight differ in dtype; where they agree, torch's own are as good.

Shapes: the input is [..., *normalized]; it is taken as `rows` x `columns`, with `columns` the elements of the weight
(or of `normalized_shape`). `mean` and `rstd` are float32, shape [rows]. All arithmetic is float32. Inputs are made
contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import backend


def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    out_dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) * rstd * weight + bias over the last dimensions; returns (output of `out_dtype`, mean, rstd).

    rstd = 1 / sqrt(variance + eps), with the variance of all (not n - 1), from a second look at x - mean, so that
    values far from 0 keep their digits. Raises ValueError if `x` does not end in `normalized_shape`.
    """
    _check_shape(x, normalized_shape)
    result: tuple[Tensor, Tensor, Tensor] = backend.of([x]).layer_norm(
        x, normalized_shape, weight, bias, eps, out_dtype
    )
    return result


def layer_norm_backward(
    grad: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of `layer_norm` by x, weight and bias, of their dtypes, None where they are None.

    y = (x - mean) * rstd;  w = grad * weight;  dx = rstd * (w - average(w) - y * average(w * y)) over columns;
    dweight = sum of grad * y, dbias = sum of grad, over rows.
    """
    result: tuple[Tensor, Tensor | None, Tensor | None] = backend.of([x]).layer_norm_backward(
        grad, x, normalized_shape, mean, rstd, weight, bias
    )
    return result


def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float, out_dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """x * rstd * weight over the last dimensions, rstd = 1 / sqrt(average(x * x) + eps); returns (output, rstd).

    Zhang and Sennrich 2019. Raises ValueError if `x` does not end in `normalized_shape`.
    """
    _check_shape(x, normalized_shape)
    result: tuple[Tensor, Tensor] = backend.of([x]).rms_norm(x, normalized_shape, weight, eps, out_dtype)
    return result


def rms_norm_backward(
    grad: Tensor, x: Tensor, normalized_shape: Sequence[int], rstd: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Gradients of `rms_norm` by x and weight, of their dtypes, None where they are None.

    y = x * rstd;  w = grad * weight;  dx = rstd * (w - y * average(w * y));  dweight = sum of grad * y over rows.
    """
    result: tuple[Tensor, Tensor | None] = backend.of([x]).rms_norm_backward(grad, x, normalized_shape, rstd, weight)
    return result


def _check_shape(x: Tensor, normalized_shape: Sequence[int]) -> None:
    wanted = tuple(normalized_shape)
    if not wanted or tuple(x.shape[-len(wanted) :]) != wanted:
        raise ValueError(f"norm over {wanted}: the input's shape {tuple(x.shape)} does not end in it")
