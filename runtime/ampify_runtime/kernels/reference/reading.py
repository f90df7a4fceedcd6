"""Owns how the reference reads and writes: in a wide type, and all of a step or nothing of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Tensors = Sequence[Tensor]


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """What is computed in: float64 for float64, float32 for all else."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def widened(tensors: Tensors, like: Tensors | None = None) -> list[Tensor]:
    """`tensors` in the wide type of their own, or of those in `like`; themselves where they have it already.

    Raises TypeError for a sparse tensor.
    """
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise TypeError(f"a {tensor.layout} tensor of shape {tuple(tensor.shape)}: operations take dense tensors")
    return [
        tensor.detach().to(wide_type(model.dtype))
        for tensor, model in zip(tensors, tensors if like is None else like, strict=True)
    ]


def working(tensors: Tensors, like: Tensors, skip: Tensor) -> list[Tensor]:
    """`tensors` to be computed with in place, in the wide types of those in `like`; to `commit` afterwards.

    They are the tensors themselves where that is their type and `skip` has been decided by the CPU, else copies.
    """
    wide = widened(tensors, like)
    if skip.device.type != "cpu":
        return [new.clone() if _is_same(new, old) else new for new, old in zip(wide, tensors, strict=True)]
    return wide


def _is_same(left: Tensor, right: Tensor) -> bool:
    return left.dtype is right.dtype and left.data_ptr() == right.data_ptr()


def coefficient(value: Tensor) -> float | Tensor:
    """A tensor of one element as a factor: a number on the CPU, else of shape [], so that nothing waits."""
    return float(value.item()) if value.device.type == "cpu" else value.reshape(())


def is_skipped(skip: Tensor) -> bool:
    """Whether an update is known to be skipped without waiting for a device: asked on the CPU alone."""
    return skip.device.type == "cpu" and bool(skip.item())


def commit(destinations: Tensors, values: Tensors, skip: Tensor) -> None:
    """Write `values` into `destinations`, rounded to their types; where `skip` is not 0, nothing changes."""
    if not destinations:
        return
    if skip.device.type != "cpu":
        values = unless(skip, values, destinations)
    pairs = [(old, new) for old, new in zip(destinations, values, strict=True) if not _is_same(old, new)]
    if pairs:
        torch._foreach_copy_([old for old, _ in pairs], [new for _, new in pairs])


def unless(skip: Tensor, values: Tensors, old: Tensors) -> list[Tensor]:
    """`values`, or where `skip` is not 0 the `old` ones; decided on the device, without waiting for it."""
    kept = skip.reshape(()) != 0
    return [torch.where(kept, before.to(new.dtype), new) for before, new in zip(old, values, strict=True)]
