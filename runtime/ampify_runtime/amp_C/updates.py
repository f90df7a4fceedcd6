"""Owns the functions of amp_C for SGD, Adagrad and NovoGrad."""

from __future__ import annotations

from torch import Tensor

from ..kernels import operations
from .lists import Lists, state_for


def multi_tensor_sgd(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    wd: float,
    momentum: float,
    dampening: float,
    lr: float,
    nesterov: bool,
    first_run: bool,
    wd_after_momentum: bool,
    scale: float,
) -> None:
    """lists: gradients, parameters, momenta, and perhaps the model's copies. Nothing happens where the flag is set.

    Gradients are multiplied by `scale` as they are read.
    """
    state = state_for(tensor_lists, lr=lr, found_inf=noop_flag)
    state.grad_factor.fill_(scale)
    operations.sgd(
        tensor_lists[0],
        tensor_lists[1],
        tensor_lists[2] if momentum else None,
        state,
        model_params=tensor_lists[3] if len(tensor_lists) > 3 else None,
        momentum=momentum,
        dampening=dampening,
        nesterov=bool(nesterov),
        weight_decay=wd,
        wd_after_momentum=bool(wd_after_momentum),
        first_run=bool(first_run),
    )


def multi_tensor_adagrad(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    lr: float,
    epsilon: float,
    mode: int,
    weight_decay: float,
) -> None:
    """lists: gradients, parameters, sums. `mode` 1 decouples the weight decay. The flag is not looked at."""
    state = state_for(tensor_lists, lr=lr)
    gradients, parameters, sums = tensor_lists
    operations.adagrad(gradients, parameters, sums, state, eps=epsilon, weight_decay=weight_decay, decoupled=mode == 1)


def multi_tensor_novograd(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    grad_norms: Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    bias_correction: int,
    weight_decay: float,
    grad_averaging: int,
    mode: int,
    norm_type: int,
) -> None:
    """lists: gradients, parameters, moments. `grad_norms`, shape [n], are the second moments, blended in place.

    `mode` 0 decays inside the moment. `norm_type` is 2, or 0 for the largest magnitude. The flag is not looked at.
    """
    betas = (beta1, beta2)
    gradients, parameters, moments = tensor_lists
    operations.novograd(
        gradients,
        parameters,
        moments,
        grad_norms,
        state_for(tensor_lists, lr=lr, step=step, betas=betas, bias_correction=bool(bias_correction)),
        operations.max_norms(gradients) if norm_type == 0 else operations.l2norm(gradients).each,
        betas=betas,
        eps=epsilon,
        weight_decay=weight_decay,
        grad_averaging=bool(grad_averaging),
        decay_in_moment=mode == 0,
        max_norm_kind=norm_type == 0,
    )
