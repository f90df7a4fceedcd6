"""Owns amp_C's loss scale that is lowered only after several overflows."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def update_scale_hysteresis(
    current_scale: Tensor,
    growth_tracker: Tensor,
    hysteresis_tracker: Tensor,
    found_inf: Tensor,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: int,
    hysteresis: int,
) -> Tensor:
    """Move `current_scale` (float32, one element) and both trackers (int32, one element) in place; returns the scale.

    An overflow takes one from the hysteresis tracker; only at 0 is the scale multiplied by `backoff_factor`. A clean
    step fills the tracker up to `hysteresis`; after `growth_interval` of them the scale is multiplied by
    `growth_factor`, unless that is infinite. A scale below the least normal number becomes 0, as on a GPU.
    """
    overflowed = found_inf.reshape(current_scale.shape) > 0
    left = hysteresis_tracker.reshape(current_scale.shape) - overflowed.to(hysteresis_tracker.dtype)
    lowered = overflowed & (left <= 0)
    counted = growth_tracker.reshape(current_scale.shape) + 1
    full = counted == growth_interval
    grown, lower = current_scale * growth_factor, current_scale * backoff_factor
    lower = torch.where(lower.abs() < torch.finfo(lower.dtype).tiny, 0.0, lower)
    rising = ~overflowed & full & torch.isfinite(grown)
    current_scale.copy_(torch.where(lowered, lower, torch.where(rising, grown, current_scale)))
    growth_tracker.copy_(torch.where(overflowed | full, 0, counted).reshape(growth_tracker.shape))
    hysteresis_tracker.copy_(torch.where(overflowed, left, hysteresis).reshape(hysteresis_tracker.shape))
    return current_scale
