"""Owns the functional forms of layer and RMS normalization: which type comes out, and who computes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from .mixed_types import MixedLayerNorm, MixedRMSNorm

Shape = int | Sequence[int]

# torch's stubs leave `apply` untyped.
_layer: Callable[..., torch.Tensor] = MixedLayerNorm.apply
_rms: Callable[..., torch.Tensor] = MixedRMSNorm.apply


def fused_layer_norm_affine(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> torch.Tensor:
    """Layer normalization of `input` [*, *normalized_shape], in the input's type, or under autocast in autocast's."""
    return _layer_norm(input, normalized_shape, weight, bias, eps, memory_efficient, input.dtype)


def fused_layer_norm(
    input: torch.Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> torch.Tensor:
    """As `fused_layer_norm_affine`, with neither weight nor bias."""
    return _layer_norm(input, normalized_shape, None, None, eps, memory_efficient, input.dtype)


def mixed_dtype_fused_layer_norm_affine(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> torch.Tensor:
    """As `fused_layer_norm_affine`, in the weight's type, or under autocast in autocast's."""
    return _layer_norm(input, normalized_shape, weight, bias, eps, memory_efficient, weight.dtype)


def fused_rms_norm_affine(
    input: torch.Tensor,
    weight: torch.Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> torch.Tensor:
    """`input` [*, *normalized_shape] over its root mean square, in the input's type; under autocast in autocast's."""
    return _rms_norm(input, normalized_shape, weight, eps, memory_efficient, input.dtype)


def fused_rms_norm(
    input: torch.Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> torch.Tensor:
    """As `fused_rms_norm_affine`, with no weight."""
    return _rms_norm(input, normalized_shape, None, eps, memory_efficient, input.dtype)


def mixed_dtype_fused_rms_norm_affine(
    input: torch.Tensor,
    weight: torch.Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> torch.Tensor:
    """As `fused_rms_norm_affine`, in the weight's type, or under autocast in autocast's."""
    return _rms_norm(input, normalized_shape, weight, eps, memory_efficient, weight.dtype)


def manual_rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None, eps: float
) -> torch.Tensor:
    """RMS normalization in single torch operations; with a weight, the output has the type that torch promotes to."""
    shape = _sizes(normalized_shape)
    normalized = _composed_rms_norm(input, shape, None, eps, input.dtype)
    return normalized if weight is None else weight * normalized


class FusedLayerNormAffineFunction:
    """`fused_layer_norm_affine` with every argument given, for scripts that call the autograd function itself."""

    apply = staticmethod(fused_layer_norm_affine)


class FusedLayerNormAffineMixedDtypesFunction:
    """`mixed_dtype_fused_layer_norm_affine`, for scripts that call the autograd function itself."""

    apply = staticmethod(mixed_dtype_fused_layer_norm_affine)


class FusedLayerNormFunction:
    """`fused_layer_norm`, for scripts that call the autograd function itself."""

    apply = staticmethod(fused_layer_norm)


class FusedRMSNormAffineFunction:
    """`fused_rms_norm_affine`, for scripts that call the autograd function itself."""

    apply = staticmethod(fused_rms_norm_affine)


class FusedRMSNormAffineMixedDtypesFunction:
    """`mixed_dtype_fused_rms_norm_affine`, for scripts that call the autograd function itself."""

    apply = staticmethod(mixed_dtype_fused_rms_norm_affine)


class FusedRMSNormFunction:
    """`fused_rms_norm`, for scripts that call the autograd function itself."""

    apply = staticmethod(fused_rms_norm)


def _layer_norm(
    input: torch.Tensor,
    normalized_shape: Shape,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    memory_efficient: bool,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    shape, device = _sizes(normalized_shape), input.device.type
    input, out_dtype = _under_autocast(input, out_dtype)
    with torch.autocast(device, enabled=False):
        if _is_custom(input, (weight, bias), out_dtype, memory_efficient):
            return _layer(input, weight, bias, shape, eps, out_dtype, memory_efficient)
        if _agree(out_dtype, input, weight, bias):
            return F.layer_norm(input, shape, weight, bias, eps)
        wide = _wide(input, weight)
        return F.layer_norm(input.to(wide), shape, _cast(weight, wide), _cast(bias, wide), eps).to(out_dtype)


def _rms_norm(
    input: torch.Tensor,
    normalized_shape: Shape,
    weight: torch.Tensor | None,
    eps: float,
    memory_efficient: bool,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    shape, device = _sizes(normalized_shape), input.device.type
    input, out_dtype = _under_autocast(input, out_dtype)
    with torch.autocast(device, enabled=False):
        if _is_custom(input, (weight,), out_dtype, memory_efficient):
            return _rms(input, weight, shape, eps, out_dtype, memory_efficient)
        if _agree(out_dtype, input, weight):
            return F.rms_norm(input, shape, weight, eps)
        return _composed_rms_norm(input, shape, weight, eps, out_dtype)


def _composed_rms_norm(
    input: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float, out_dtype: torch.dtype
) -> torch.Tensor:
    wide = _wide(input, weight)
    return F.rms_norm(input.to(wide), shape, _cast(weight, wide), eps).to(out_dtype)


def _is_custom(
    input: torch.Tensor, parameters: tuple[torch.Tensor | None, ...], out_dtype: torch.dtype, memory_efficient: bool
) -> bool:
    """Whether our own forward and backward are worth their while: torch has none that mixes types or saves the output.

    What traces a model gets torch's operations, which it can see through.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    given = [tensor for tensor in (input, *parameters) if tensor is not None]
    differentiated = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)
    if memory_efficient and differentiated:
        return True
    return input.is_cuda and not _agree(out_dtype, *given)


def _under_autocast(input: torch.Tensor, otherwise: torch.dtype) -> tuple[torch.Tensor, torch.dtype]:
    """The input, cast under autocast as apex casts it, and the output's type. Weights need not be rounded."""
    device = input.device.type
    if input.dtype is torch.float64 or not torch.amp.is_autocast_available(device):
        return input, otherwise
    if not torch.is_autocast_enabled(device):
        return input, otherwise
    dtype = torch.get_autocast_dtype(device)
    return input.to(dtype), dtype


def _agree(dtype: torch.dtype, *tensors: torch.Tensor | None) -> bool:
    return all(tensor is None or tensor.dtype is dtype for tensor in tensors)


def _wide(input: torch.Tensor, weight: torch.Tensor | None) -> torch.dtype:
    return (
        torch.float64 if torch.float64 in (input.dtype, weight.dtype if weight is not None else None) else torch.float32
    )


def _cast(tensor: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    return None if tensor is None else tensor.to(dtype)


def _sizes(normalized_shape: Shape) -> list[int]:
    return [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
