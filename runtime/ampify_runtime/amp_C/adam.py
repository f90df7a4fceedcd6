"""Owns the functions of amp_C for Adam."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..kernels import operations
from .lists import Lists, state_for, steps_before


def multi_tensor_adam(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    mode: int,
    bias_correction: int,
    weight_decay: float,
) -> None:
    """lists: gradients, parameters, first and second moments. `mode` 0 is Adam, 1 AdamW. The flag is not looked at."""
    betas = (beta1, beta2)
    state = state_for(tensor_lists, lr=lr, step=step, betas=betas, bias_correction=bool(bias_correction))
    gradients, parameters, first, second = tensor_lists
    operations.adam(
        gradients,
        parameters,
        first,
        second,
        state,
        betas=betas,
        eps=epsilon,
        weight_decay=weight_decay,
        decoupled=mode == 1,
    )


def multi_tensor_adam_capturable(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    lr: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: Tensor,
    mode: int,
    bias_correction: int,
    weight_decay: float,
    inv_scale: Tensor,
) -> None:
    """`multi_tensor_adam` with `lr`, `step` and `inv_scale` on the device; nothing happens where the flag is set.

    As in apex, gradients are unscaled in place.
    """
    _adam_on_device(
        noop_flag, tensor_lists, lr, (beta1, beta2), epsilon, step, mode, bias_correction, weight_decay, inv_scale
    )


def multi_tensor_adam_capturable_master(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    lr: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: Tensor,
    mode: int,
    bias_correction: int,
    weight_decay: float,
    inv_scale: Tensor,
) -> None:
    """`multi_tensor_adam_capturable` with a fifth list, the float32 masters, which are updated and copied from."""
    gradients, parameters, first, second, masters = tensor_lists
    lists = (gradients, masters, first, second)
    _adam_on_device(
        noop_flag,
        lists,
        lr,
        (beta1, beta2),
        epsilon,
        step,
        mode,
        bias_correction,
        weight_decay,
        inv_scale,
        parameters,
    )


def _adam_on_device(
    noop_flag: Tensor,
    lists: Lists,
    lr: Tensor,
    betas: tuple[float, float],
    epsilon: float,
    step: Tensor,
    mode: int,
    bias_correction: int,
    weight_decay: float,
    inv_scale: Tensor,
    model_params: Sequence[Tensor] | None = None,
) -> None:
    before, corrected = steps_before(step, noop_flag), bool(bias_correction)
    state = state_for(lists, lr=lr, step=before, betas=betas, bias_correction=corrected, found_inf=noop_flag)
    state.grad_factor.copy_(inv_scale.reshape(()))
    gradients, parameters, first, second = lists
    operations.adam(
        gradients,
        parameters,
        first,
        second,
        state,
        model_params=model_params,
        betas=betas,
        eps=epsilon,
        weight_decay=weight_decay,
        decoupled=mode == 1,
    )
    factor = torch.where(noop_flag.reshape(()) != 0, 1.0, inv_scale.reshape(()))
    operations.scale(gradients, gradients, factor)
