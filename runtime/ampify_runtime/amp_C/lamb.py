"""Owns the functions of amp_C for LAMB, in one call or in two stages."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels import operations
from ..kernels.operations import StepState
from ..kernels.reference import rules
from ..kernels.reference.reading import widened
from .lists import Lists, state_for, steps_before


def multi_tensor_lamb(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    bias_correction: int,
    weight_decay: float,
    grad_averaging: int,
    mode: int,
    global_grad_norm: Tensor,
    max_grad_norm: float,
    use_nvlamb_python: bool | None = None,
) -> None:
    """lists: gradients, parameters, first and second moments. `mode` 1 decouples the weight decay.

    Gradients are clipped as they are read: divided by `global_grad_norm` / `max_grad_norm` where that is above 1. They
    are left as they are; apex writes its updates into them. The flag is not looked at.
    """
    betas = (beta1, beta2)
    state = state_for(tensor_lists, lr=lr, step=step, betas=betas, bias_correction=bool(bias_correction))
    state.grad_factor.copy_(_clip(global_grad_norm, max_grad_norm))
    _lamb(tensor_lists, state, betas, epsilon, weight_decay, grad_averaging, mode, use_nvlamb_python)


def multi_tensor_lamb_mp(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    lr: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: Tensor,
    bias_correction: int,
    weight_decay: float,
    grad_averaging: int,
    mode: int,
    global_grad_norm: Tensor,
    max_grad_norm: Tensor,
    use_nvlamb_python: bool | None,
    found_inf: Tensor,
    inv_scale: Tensor,
) -> None:
    """`multi_tensor_lamb` with numbers on the device, and perhaps a fifth list, the model's copies of the parameters.

    Gradients are unscaled by `inv_scale` as they are read; both norms are of scaled ones. Nothing happens where the
    flag is set.
    """
    betas = (beta1, beta2)
    before = steps_before(step, noop_flag)
    state = state_for(
        tensor_lists, lr=lr, step=before, betas=betas, bias_correction=bool(bias_correction), found_inf=noop_flag
    )
    state.grad_factor.copy_(_clip(global_grad_norm, max_grad_norm) * inv_scale.reshape(()))
    _lamb(tensor_lists, state, betas, epsilon, weight_decay, grad_averaging, mode, use_nvlamb_python)


def _clip(norm: Tensor, maximum: float | Tensor) -> Tensor:
    limit = maximum.reshape(()) if isinstance(maximum, Tensor) else maximum
    length = norm.reshape(())
    return torch.where(length > limit, limit / length, 1.0)


def _lamb(
    lists: Lists,
    state: StepState,
    betas: tuple[float, float],
    epsilon: float,
    weight_decay: float,
    grad_averaging: int,
    mode: int,
    use_nvlamb: bool | None,
) -> None:
    gradients, parameters, first, second = lists[:4]
    operations.lamb(
        gradients,
        parameters,
        first,
        second,
        state,
        model_params=lists[4] if len(lists) > 4 else None,
        betas=betas,
        eps=epsilon,
        weight_decay=weight_decay,
        decoupled=mode == 1,
        grad_averaging=bool(grad_averaging),
        use_nvlamb=bool(use_nvlamb),
    )


@torch.no_grad()
def multi_tensor_lamb_stage1_cuda(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    per_tensor_decay: Tensor,
    step: int,
    beta1: float,
    beta2: float,
    epsilon: float,
    global_grad_norm: Tensor,
    max_global_grad_norm: float,
) -> None:
    """lists: gradients, parameters, first and second moments, updates. Writes moments and updates, not parameters.

    `per_tensor_decay`: float32, shape [n]. `step` counts from 0. The flag is not looked at.
    """
    gradients, parameters, first, second, updates = tensor_lists
    if not parameters:
        return
    wide = widened(parameters)
    clip = _clip(global_grad_norm, max_global_grad_norm)
    new_first, new_second, direction = rules.lamb_direction(
        list(torch._foreach_mul(widened(gradients, parameters), clip)),
        wide,
        widened(first, parameters),
        widened(second, parameters),
        decay=0.0,
        decoupled=True,
        beta1=beta1,
        beta2=beta2,
        beta3=1.0 - beta1,
        eps=epsilon,
        correction1=1.0 - beta1 ** (step + 1),
        correction2=1.0 - beta2 ** (step + 1),
    )
    decays = torch._foreach_mul(wide, list(per_tensor_decay.unbind()))
    torch._foreach_copy_(list(updates), torch._foreach_add(direction, decays))
    torch._foreach_copy_(list(first), new_first)
    torch._foreach_copy_(list(second), new_second)


@torch.no_grad()
def multi_tensor_lamb_stage2_cuda(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    per_tensor_param_norm: Tensor,
    per_tensor_update_norm: Tensor,
    lr: float,
    weight_decay: float,
    use_nvlamb_python: bool | None = None,
) -> None:
    """lists: parameters, updates. A step along the updates, each times the ratio of its norms, float32, shape [n].

    The ratio is 1 without weight decay, unless `use_nvlamb_python`, or where a norm is 0. The flag is not looked at.
    """
    parameters, updates = tensor_lists
    if not parameters:
        return
    ratios = None
    if use_nvlamb_python or weight_decay != 0.0:
        usable = (per_tensor_param_norm != 0) & (per_tensor_update_norm != 0)
        ratios = list(torch.where(usable, per_tensor_param_norm / per_tensor_update_norm, 1.0).unbind())
    moved = rules.along(widened(parameters), widened(updates, parameters), ratios, lr)
    torch._foreach_copy_(list(parameters), moved)
