"""scale and axpby by the kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import reference
from .launching import plan_of

Tensors = Sequence[Tensor]


@torch.no_grad()
def scale(inputs: Tensors, outputs: Tensors, factor: float | Tensor, found_inf: Tensor | None) -> None:
    """`operations.scale` by the kernels."""
    plan = plan_of("scale", (inputs, outputs), lambda types: types, read_only=1)
    if plan is None:
        reference.scale(inputs, outputs, factor, found_inf)
        return
    by, by_at = _number_and_place(factor)
    for launch in plan.launches(widest=2):
        launch.over("scale", (0, 1), by, by_at, found_inf, _mark(found_inf))


@torch.no_grad()
def axpby(
    xs: Tensors,
    ys: Tensors,
    outputs: Tensors,
    a: float | Tensor,
    b: float | Tensor,
    found_inf: Tensor | None,
    checked: int,
) -> None:
    """`operations.axpby` by the kernels."""
    plan = plan_of("axpby", (xs, ys, outputs), lambda types: types, read_only=2)
    if plan is None:
        reference.axpby(xs, ys, outputs, a, b, found_inf, checked)
        return
    of_x, of_y = _number_and_place(a), _number_and_place(b)
    checks = (checked in (-1, 0), checked in (-1, 1))
    for launch in plan.launches(widest=3):
        launch.over("axpby", (0, 1, 2), *of_x, *of_y, found_inf, _mark(found_inf), *checks)


def _number_and_place(factor: float | Tensor) -> tuple[float, Tensor | None]:
    """What the host knows of a factor, and where on the device the rest of it is."""
    return (1.0, factor) if isinstance(factor, Tensor) else (factor, None)


def _mark(found_inf: Tensor | None) -> int:
    """1 in the flag's type, as bits."""
    is_float = found_inf is not None and found_inf.dtype == torch.float32
    return 0x3F800000 if is_float else 1
