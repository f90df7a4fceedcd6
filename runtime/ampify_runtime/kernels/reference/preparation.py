"""step_prep in plain torch: the decision about a step, without waiting for the device."""

from __future__ import annotations

import torch
from torch import Tensor

from ..state import GradStats, ScaleUpdate, StepState


@torch.no_grad()
def step_prep(
    state: StepState,
    stats: GradStats | None,
    *,
    lr: float | Tensor,
    step: int | Tensor,
    betas: tuple[float, float],
    bias_correction: bool,
    found_inf: Tensor | None,
    scale: Tensor | None,
    max_norm: float,
    norm_epsilon: float,
    scale_update: ScaleUpdate | None,
) -> None:
    """`operations.step_prep` in plain torch."""
    _decide(state, stats, found_inf)
    _count(state, step)
    _scale_back(state, stats, scale, max_norm, norm_epsilon)
    _correct(state, betas, bias_correction)
    _write(state.lr, lr)
    if scale_update is not None and scale is not None:
        _move(scale, scale_update, state.skip)


def _write(field: Tensor, value: float | Tensor) -> None:
    if isinstance(value, Tensor):
        field.copy_(value.detach().reshape(()))
    else:
        field.fill_(value)


def _decide(state: StepState, stats: GradStats | None, found_inf: Tensor | None) -> None:
    flags = [
        flag.reshape(()) != 0 for flag in (None if stats is None else stats.found_inf, found_inf) if flag is not None
    ]
    _write(state.skip, torch.stack(flags).any() if flags else 0.0)


def _count(state: StepState, step: int | Tensor) -> None:
    if isinstance(step, Tensor):
        step.add_((state.skip == 0).to(step.dtype))
    _write(state.step, step)


def _scale_back(
    state: StepState, stats: GradStats | None, scale: Tensor | None, max_norm: float, norm_epsilon: float
) -> None:
    _write(state.inv_scale, 1.0 if scale is None else _exactly(scale).reciprocal())
    _write(state.grad_norm, 0.0 if stats is None else stats.sums.sum().sqrt() * state.inv_scale)
    _write(state.clip, (max_norm / (state.grad_norm + norm_epsilon)).clamp(max=1.0) if max_norm > 0.0 else 1.0)
    _write(state.grad_factor, state.inv_scale * state.clip)


def _correct(state: StepState, betas: tuple[float, float], bias_correction: bool) -> None:
    for field, beta in zip((state.bias_correction1, state.bias_correction2), betas, strict=True):
        _write(field, 1.0 - torch.pow(beta, _exactly(state.step)) if bias_correction else 1.0)


def _exactly(value: Tensor) -> Tensor:
    """In float64 where the device has it; Apple's have not."""
    return value.reshape(()).to(torch.float32 if value.device.type == "mps" else torch.float64)


def _move(scale: Tensor, update: ScaleUpdate, skip: Tensor) -> None:
    """The bookkeeping of `torch.amp.GradScaler.update`, then the bounds."""
    skipped = skip != 0
    grown = update.tracker + 1 >= update.growth_interval
    larger = scale * update.growth_factor
    larger = torch.where(torch.isfinite(larger), larger, scale)
    moved = torch.where(skipped, scale * update.backoff_factor, torch.where(grown, larger, scale))
    scale.copy_(moved.clamp(update.lowest, update.highest))
    update.tracker.copy_(torch.where(skipped | grown, 0, update.tracker + 1))
