"""l2norm, max_norms and grad_stats by the kernels: block by block, then tensor by tensor, in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import reference
from ..families import Variant
from ..state import GradStats, Norms
from .launching import Plan, plan_of

Tensors = Sequence[Tensor]
TOTALS = Variant("totals")


@torch.no_grad()
def grad_stats(grads: Tensors) -> GradStats:
    """`operations.grad_stats` by the kernels."""
    plan = _plan(grads)
    if plan is None:
        return reference.grad_stats(grads)
    found_inf = torch.zeros((), dtype=torch.float32, device=grads[0].device)
    return GradStats(_sums_of_squares(plan, grads, found_inf), found_inf)


@torch.no_grad()
def l2norm(tensors: Tensors) -> Norms:
    """`operations.l2norm` by the kernels."""
    plan = _plan(tensors)
    if plan is None:
        return reference.l2norm(tensors)
    each = _sums_of_squares(plan, tensors, None)
    total = torch.empty((), dtype=torch.float32, device=each.device)
    plan.engine.launch(TOTALS, "norms_of_sums", (1, 1), each, each.numel(), total)
    return Norms(total, each)


@torch.no_grad()
def max_norms(tensors: Tensors) -> Tensor:
    """`operations.max_norms` by the kernels."""
    plan = _plan(tensors)
    if plan is None:
        return reference.max_norms(tensors)
    result = _one_each(tensors)
    for launch in plan.launches(widest=1):
        of_block = launch.of_blocks(result)
        launch.over("largest", (0,), of_block)
        launch.sum_up("largest_of_blocks", of_block, result, variant=TOTALS)
    return result


def _plan(tensors: Tensors) -> Plan | None:
    return plan_of("grad_stats", (tensors,), lambda types: types, read_only=1, also=(TOTALS,))


def _one_each(tensors: Tensors) -> Tensor:
    return torch.empty(len(tensors), dtype=torch.float32, device=tensors[0].device)


def _sums_of_squares(plan: Plan, tensors: Tensors, found_inf: Tensor | None) -> Tensor:
    sums = _one_each(tensors)
    for launch in plan.launches(widest=1):
        of_block = launch.of_blocks(sums)
        launch.over("grad_stats", (0,), of_block, found_inf)
        launch.sum_up("sum_blocks", of_block, sums, variant=TOTALS)
    return sums
