"""scale and axpby in plain torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .reading import widened


@torch.no_grad()
def scale(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], factor: float | Tensor, found_inf: Tensor | None
) -> None:
    """`operations.scale` in plain torch."""
    note_overflow(inputs, found_inf)
    if inputs:
        torch._foreach_copy_(list(outputs), torch._foreach_mul(widened(inputs), _shapeless(factor)))


@torch.no_grad()
def axpby(
    xs: Sequence[Tensor],
    ys: Sequence[Tensor],
    outputs: Sequence[Tensor],
    a: float | Tensor,
    b: float | Tensor,
    found_inf: Tensor | None,
    checked: int,
) -> None:
    """`operations.axpby` in plain torch."""
    for inputs, number in ((xs, 0), (ys, 1)):
        if checked in (-1, number):
            note_overflow(inputs, found_inf)
    if xs:
        left = torch._foreach_mul(widened(xs), _shapeless(a))
        right = torch._foreach_mul(widened(ys), _shapeless(b))
        torch._foreach_copy_(list(outputs), torch._foreach_add(left, right))


def note_overflow(tensors: Sequence[Tensor], found_inf: Tensor | None) -> None:
    """Set `found_inf` to 1 if an element of `tensors` is not finite; leave it otherwise."""
    if found_inf is not None and tensors:
        found_inf.masked_fill_(any_not_finite(tensors), 1)


def any_not_finite(tensors: Sequence[Tensor]) -> Tensor:
    """Whether some element is infinite or not a number; bool, shape [], on the tensors' device."""
    return torch.stack([torch.isfinite(tensor.detach()).all() for tensor in tensors]).all().logical_not()


def _shapeless(value: float | Tensor) -> float | Tensor:
    return value.reshape(()) if isinstance(value, Tensor) else value
