"""Owns how amp_C's calls become those of our operations: whose device, which numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..kernels.operations import StepState, step_prep

Lists = Sequence[Sequence[Tensor]]


def state_for(
    tensor_lists: Lists,
    *,
    lr: float | Tensor,
    step: int | Tensor = 1,
    betas: tuple[float, float] = (0.0, 0.0),
    bias_correction: bool = False,
    found_inf: Tensor | None = None,
) -> StepState:
    """What an update of `tensor_lists` is to go by, on their device; `found_inf` that is not 0 skips it."""
    parameters = tensor_lists[1]
    state = StepState.on(parameters[0].device if parameters else torch.device("cpu"))
    if any(parameter.dtype is torch.float64 for parameter in parameters):
        state = StepState(state.values.double())
    step_prep(state, None, lr=lr, step=step, betas=betas, bias_correction=bias_correction, found_inf=found_inf)
    return state


def steps_before(step: Tensor, noop_flag: Tensor) -> Tensor:
    """`step` as `step_prep` wants it, which counts one up where nothing overflowed: the caller has counted already."""
    return (step - (noop_flag == 0).to(step.dtype).reshape(step.shape)).to(torch.int32)
