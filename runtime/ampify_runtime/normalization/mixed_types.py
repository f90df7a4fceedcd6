"""Owns the autograd functions of the norms for what torch has none: mixed types, and a backward from the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..kernels import operations
from .from_output import layer_norm_backward_from_output, rms_norm_backward_from_output


class MixedLayerNorm(torch.autograd.Function):
    """`operations.layer_norm`; with `memory_efficient` its backward needs the output instead of the input."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        shape: Sequence[int],
        eps: float,
        out_dtype: torch.dtype,
        memory_efficient: bool,
    ) -> Tensor:
        output, mean, rstd = operations.layer_norm(x, shape, weight, bias, eps, out_dtype)
        ctx.shape, ctx.input_type, ctx.memory_efficient = shape, x.dtype, memory_efficient
        ctx.save_for_backward(output if memory_efficient else x, None if memory_efficient else mean, rstd, weight, bias)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        kept, mean, rstd, weight, bias = ctx.saved_tensors
        if ctx.memory_efficient:
            gradients = layer_norm_backward_from_output(grad, kept, rstd, weight, bias, ctx.input_type)
        else:
            gradients = operations.layer_norm_backward(grad, kept, ctx.shape, mean, rstd, weight, bias)
        return (*gradients, None, None, None, None)


class MixedRMSNorm(torch.autograd.Function):
    """`operations.rms_norm`; with `memory_efficient` its backward needs the output instead of the input."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        shape: Sequence[int],
        eps: float,
        out_dtype: torch.dtype,
        memory_efficient: bool,
    ) -> Tensor:
        output, rstd = operations.rms_norm(x, shape, weight, eps, out_dtype)
        ctx.shape, ctx.input_type, ctx.memory_efficient = shape, x.dtype, memory_efficient
        ctx.save_for_backward(output if memory_efficient else x, rstd, weight)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        kept, rstd, weight = ctx.saved_tensors
        if ctx.memory_efficient:
            gradients = rms_norm_backward_from_output(grad, kept, rstd, weight, ctx.input_type)
        else:
            gradients = operations.rms_norm_backward(grad, kept, ctx.shape, rstd, weight)
        return (*gradients, None, None, None, None)
