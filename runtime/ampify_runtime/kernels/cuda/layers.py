"""LayerNorm and RMSNorm by the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import reference
from ..engine import THREADS, Engine
from ..engines import engine_for
from ..families import ELEMENT_TYPES, NOTHING, Variant
from .launching import ready

# Strips of rows that sums over rows are cut into: enough to fill a device, few enough to add up.
_MOST_STRIPS = 128
_ROWS_A_STRIP = 32
_MOST_COLUMNS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Norm:
    """A norm that the kernels will compute: the engine, what it is compiled for, and how many rows and columns."""

    engine: Engine
    variant: Variant
    rows: int
    columns: int

    def a_row_each(self, entry: str, *arguments: Tensor | float | None) -> None:
        self.engine.launch(self.variant, entry, (self.rows, 1), *arguments)


@torch.no_grad()
def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    out_dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """`operations.layer_norm` by its kernel."""
    norm = _planned(x, normalized_shape, weight, bias, out_dtype, centered=True)
    if norm is None:
        return reference.layer_norm(x, normalized_shape, weight, bias, eps, out_dtype)
    means, rstds = _of_rows(norm, x), _of_rows(norm, x)
    return _forward(norm, x, weight, bias, means, rstds, eps, out_dtype), means, rstds


@torch.no_grad()
def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float, out_dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """`operations.rms_norm` by its kernel."""
    norm = _planned(x, normalized_shape, weight, None, out_dtype, centered=False)
    if norm is None:
        return reference.rms_norm(x, normalized_shape, weight, eps, out_dtype)
    rstds = _of_rows(norm, x)
    return _forward(norm, x, weight, None, None, rstds, eps, out_dtype), rstds


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
    """`operations.layer_norm_backward` by its kernels."""
    norm = _planned(x, normalized_shape, weight, bias, grad.dtype, centered=True)
    if norm is None:
        return reference.layer_norm_backward(grad, x, normalized_shape, mean, rstd, weight, bias)
    return _backward(norm, grad, x, weight, bias, mean, rstd)


@torch.no_grad()
def rms_norm_backward(
    grad: Tensor, x: Tensor, normalized_shape: Sequence[int], rstd: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """`operations.rms_norm_backward` by its kernels."""
    norm = _planned(x, normalized_shape, weight, None, grad.dtype, centered=False)
    if norm is None:
        return reference.rms_norm_backward(grad, x, normalized_shape, rstd, weight)
    of_input, of_weight, _ = _backward(norm, grad, x, weight, None, None, rstd)
    return of_input, of_weight


def _planned(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    out_dtype: torch.dtype,
    *,
    centered: bool,
) -> _Norm | None:
    columns = math.prod(normalized_shape)
    engine = engine_for(x.device)
    dtypes = (x.dtype, None if weight is None else weight.dtype, None if bias is None else bias.dtype, out_dtype)
    known = all(dtype is None or dtype in ELEMENT_TYPES for dtype in dtypes)
    if (
        isinstance(engine, str)
        or not known
        or not 0 < columns <= _MOST_COLUMNS
        or (weight is None and bias is not None)
    ):
        return None
    types = (NOTHING if dtype is None else ELEMENT_TYPES[dtype] for dtype in dtypes)
    variant = Variant("row_norm", (*types, "1" if centered else "0"))
    return _Norm(engine, variant, x.numel() // columns, columns) if ready(engine, variant) else None


def _of_rows(norm: _Norm, like: Tensor) -> Tensor:
    return torch.empty(norm.rows, dtype=torch.float32, device=like.device)


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _forward(
    norm: _Norm,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    means: Tensor | None,
    rstds: Tensor,
    eps: float,
    out_dtype: torch.dtype,
) -> Tensor:
    # Each is held by a name until the launch has copied its address and, on the stream, the memory is in use.
    dense, of_weight, of_bias = x.contiguous(), _contiguous(weight), _contiguous(bias)
    output = torch.empty_like(dense, dtype=out_dtype, memory_format=torch.contiguous_format)
    norm.a_row_each("row_norm", dense, of_weight, of_bias, output, means, rstds, norm.columns, eps)
    return output


def _backward(
    norm: _Norm,
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    means: Tensor | None,
    rstds: Tensor,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    of_output, dense, of_weight = grad.contiguous(), x.contiguous(), _contiguous(weight)
    centers, widths = _contiguous(means), rstds.contiguous()
    of_input = torch.empty_like(dense, memory_format=torch.contiguous_format)
    norm.a_row_each("row_norm_backward", of_output, dense, of_weight, centers, widths, of_input, norm.columns)
    if weight is None:
        return of_input, None, None
    return of_input, *_summed_over_rows(norm, of_output, dense, centers, widths, weight, bias)


def _summed_over_rows(
    norm: _Norm,
    grad: Tensor,
    x: Tensor,
    means: Tensor | None,
    rstds: Tensor,
    weight: Tensor,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    strips = min(_MOST_STRIPS, max(1, -(-norm.rows // _ROWS_A_STRIP)))
    rows_a_strip = max(1, -(-norm.rows // strips))
    of_strip = torch.empty((strips, 2, norm.columns), dtype=torch.float32, device=x.device)
    tiles = -(-norm.columns // THREADS)
    launch, variant = norm.engine.launch, norm.variant
    sizes = (norm.rows, norm.columns, rows_a_strip)
    launch(variant, "row_norm_strips", (tiles, strips), grad, x, means, rstds, of_strip, *sizes)
    of_weight = torch.empty_like(weight, memory_format=torch.contiguous_format)
    of_bias = None if bias is None else torch.empty_like(bias, memory_format=torch.contiguous_format)
    launch(variant, "row_norm_weights", (tiles, 1), of_strip, of_weight, of_bias, strips, norm.columns)
    return of_weight, of_bias
