"""Owns the functions of amp_C that scale, add and measure tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels import operations
from ..kernels.operations.elementwise import Checked
from .lists import Lists


def multi_tensor_scale(chunk_size: int, noop_flag: Tensor, tensor_lists: Lists, scale: float) -> None:
    """lists: inputs, outputs. Outputs are inputs times `scale`; the flag is set if an input is not finite."""
    operations.scale(tensor_lists[0], tensor_lists[1], scale, noop_flag)


def multi_tensor_axpby(
    chunk_size: int, noop_flag: Tensor, tensor_lists: Lists, a: float, b: float, arg_to_check: int
) -> None:
    """lists: x, y, outputs. Outputs are a x + b y; the flag is set if x (0), y (1) or either (-1) is not finite."""
    xs, ys, outputs = tensor_lists
    operations.axpby(xs, ys, outputs, a, b, noop_flag, Checked(arg_to_check))


def multi_tensor_l2norm(
    chunk_size: int, noop_flag: Tensor, tensor_lists: Lists, per_tensor_python: bool | None = None
) -> tuple[Tensor, Tensor]:
    """lists: tensors. Their 2-norm together, shape [1], and of each, shape [n] (empty unless asked for)."""
    tensors = tensor_lists[0]
    if not tensors:
        return torch.zeros(1, device=noop_flag.device), torch.zeros(0, device=noop_flag.device)
    norms = operations.l2norm(tensors)
    noop_flag.masked_fill_(~torch.isfinite(norms.total), 1)
    return norms.total.reshape(1), norms.each if per_tensor_python else norms.each.new_zeros(0)


def multi_tensor_l2norm_mp(
    chunk_size: int, noop_flag: Tensor, tensor_lists: Lists, per_tensor_python: bool | None = None
) -> tuple[Tensor, Tensor]:
    """`multi_tensor_l2norm` of tensors of several types; zeros where the flag is set already."""
    stopped = noop_flag.reshape(()) != 0
    total, each = multi_tensor_l2norm(chunk_size, noop_flag, tensor_lists, per_tensor_python)
    return torch.where(stopped, 0.0, total), torch.where(stopped, 0.0, each)


def multi_tensor_l2norm_scale(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    scale: float,
    per_tensor_python: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """lists: inputs, outputs. Outputs are inputs times `scale`; their 2-norms, as in `multi_tensor_l2norm`."""
    operations.scale(tensor_lists[0], tensor_lists[1], scale)
    total, each = multi_tensor_l2norm(chunk_size, noop_flag, tensor_lists[:1], per_tensor_python)
    return total * abs(scale), each * abs(scale)


def multi_tensor_unscale_l2norm(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    inv_scale: Tensor,
    per_tensor_python: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """lists: tensors. The 2-norms they would have times `inv_scale` (float32, one element); they stay as they are."""
    total, each = multi_tensor_l2norm(chunk_size, noop_flag, tensor_lists, per_tensor_python)
    factor = inv_scale.reshape(()).abs()
    return total * factor, each * factor
