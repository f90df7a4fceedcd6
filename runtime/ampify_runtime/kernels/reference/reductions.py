"""l2norm, max_norms and grad_stats in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..state import GradStats, Norms
from .elementwise import any_not_finite


@torch.no_grad()
def l2norm(tensors: Sequence[Tensor]) -> Norms:
    """`operations.l2norm` in plain torch."""
    _require_some("l2norm", tensors)
    each = _norms(tensors)
    return Norms(torch.linalg.vector_norm(each).float(), each.float())


@torch.no_grad()
def max_norms(tensors: Sequence[Tensor]) -> Tensor:
    """`operations.max_norms` in plain torch."""
    _require_some("max_norms", tensors)
    return torch.stack([(each.detach().abs().amax() if each.numel() else each.sum()).float() for each in tensors])


@torch.no_grad()
def grad_stats(grads: Sequence[Tensor]) -> GradStats:
    """`operations.grad_stats` in plain torch."""
    _require_some("grad_stats", grads)
    return GradStats(_norms(grads).square().float(), any_not_finite(grads).float())


def _norms(tensors: Sequence[Tensor]) -> Tensor:
    # Squares of float16 overflow beyond 256, so the sum's type is asked for.
    wide = torch.float64 if any(tensor.dtype is torch.float64 for tensor in tensors) else torch.float32
    return torch.stack([torch.linalg.vector_norm(tensor.detach(), dtype=wide) for tensor in tensors])


def _require_some(name: str, tensors: Sequence[Tensor]) -> None:
    if not tensors:
        raise ValueError(f"{name}: no tensors, so that there is no device to answer on; leave the call out")
