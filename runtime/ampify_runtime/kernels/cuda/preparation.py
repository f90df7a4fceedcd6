"""step_prep by its kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import reference
from ..engines import engine_for
from ..families import Variant
from ..state import GradStats, ScaleUpdate, StepState
from .launching import ready

_VARIANT = Variant("step_prep")
_AT_REST = (1.0, 1.0, 0, 0.0, 0.0)


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
    """`operations.step_prep` by its kernel."""
    engine = engine_for(state.values.device)
    if isinstance(engine, str) or not ready(engine, _VARIANT):
        reference.step_prep(
            state,
            stats,
            lr=lr,
            step=step,
            betas=betas,
            bias_correction=bias_correction,
            found_inf=found_inf,
            scale=scale,
            max_norm=max_norm,
            norm_epsilon=norm_epsilon,
            scale_update=scale_update,
        )
        return
    sums = None if stats is None else stats.sums.contiguous()
    engine.launch(
        _VARIANT,
        "step_prep",
        (1, 1),
        state.values,
        sums,
        0 if sums is None else sums.numel(),
        None if stats is None else stats.found_inf,
        found_inf,
        *_number_or_place(lr, 0.0, torch.float32),
        *_number_or_place(step, 0, torch.int32),
        *betas,
        bias_correction,
        scale,
        max_norm,
        norm_epsilon,
        *_moves(scale_update),
    )


def _number_or_place(value: float | Tensor, absent: float, dtype: torch.dtype) -> tuple[float, Tensor | None]:
    if not isinstance(value, Tensor):
        return value, None
    if value.dtype != dtype:
        raise TypeError(f"step_prep: a tensor of {dtype} with one element is asked for, not of {value.dtype}")
    return absent, value


def _moves(update: ScaleUpdate | None) -> tuple[Tensor | float | None, ...]:
    if update is None:
        return None, *_AT_REST
    factors = (update.growth_factor, update.backoff_factor, update.growth_interval)
    return update.tracker, *factors, update.lowest, update.highest
