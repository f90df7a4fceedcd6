"""The optimizers' updates in plain torch: read in a wide type, compute by `rules`, write all or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..state import StepState
from . import rules
from .reading import coefficient, commit, is_skipped, widened, working

Tensors = Sequence[Tensor]


@torch.no_grad()
def adam(
    grads: Tensors,
    params: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state: StepState,
    *,
    model_params: Tensors | None,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    decoupled: bool,
) -> None:
    """`operations.adam` in plain torch."""
    if not params or is_skipped(state.skip):
        return
    values, first, second = (working(each, params, state.skip) for each in (params, exp_avgs, exp_avg_sqs))
    rules.adam_(
        _scaled(grads, params, state),
        values,
        first,
        second,
        lr=coefficient(state.lr),
        beta1=betas[0],
        beta2=betas[1],
        eps=eps,
        decay=weight_decay,
        decoupled=decoupled,
        correction1=coefficient(state.bias_correction1),
        correction2=coefficient(state.bias_correction2),
    )
    commit(exp_avgs, first, state.skip)
    commit(exp_avg_sqs, second, state.skip)
    _commit_params(params, model_params, values, state)


@torch.no_grad()
def sgd(
    grads: Tensors,
    params: Tensors,
    momentum_buffers: Tensors | None,
    state: StepState,
    *,
    model_params: Tensors | None,
    momentum: float,
    dampening: float,
    nesterov: bool,
    weight_decay: float,
    wd_after_momentum: bool,
    first_run: bool | None,
) -> None:
    """`operations.sgd` in plain torch."""
    if not params or is_skipped(state.skip):
        return
    values = working(params, params, state.skip)
    momenta = [] if momentum_buffers is None else working(momentum_buffers, params, state.skip)
    rules.sgd_(
        _scaled(grads, params, state),
        values,
        momenta,
        lr=coefficient(state.lr),
        momentum=momentum,
        dampening=dampening,
        decay=weight_decay,
        nesterov=nesterov,
        first_run=_is_first(state) if first_run is None else first_run,
        decay_after_momentum=wd_after_momentum,
    )
    if momentum_buffers is not None:
        commit(momentum_buffers, momenta, state.skip)
    _commit_params(params, model_params, values, state)


@torch.no_grad()
def lamb(
    grads: Tensors,
    params: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state: StepState,
    *,
    model_params: Tensors | None,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    decoupled: bool,
    grad_averaging: bool,
    use_nvlamb: bool,
) -> None:
    """`operations.lamb` in plain torch."""
    if not params or is_skipped(state.skip):
        return
    wide = widened(params)
    first, second, direction = rules.lamb_direction(
        _scaled(grads, params, state),
        wide,
        widened(exp_avgs, params),
        widened(exp_avg_sqs, params),
        decay=weight_decay,
        decoupled=decoupled,
        beta1=betas[0],
        beta2=betas[1],
        beta3=1.0 - betas[0] if grad_averaging else 1.0,
        eps=eps,
        correction1=coefficient(state.bias_correction1),
        correction2=coefficient(state.bias_correction2),
    )
    ratios = rules.trust_ratios(wide, direction) if use_nvlamb or weight_decay != 0.0 else None
    commit(exp_avgs, first, state.skip)
    commit(exp_avg_sqs, second, state.skip)
    _commit_params(params, model_params, rules.along(wide, direction, ratios, coefficient(state.lr)), state)


@torch.no_grad()
def novograd(
    grads: Tensors,
    params: Tensors,
    exp_avgs: Tensors,
    grad_norms: Tensor,
    state: StepState,
    norms: Tensor,
    *,
    model_params: Tensors | None,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    grad_averaging: bool,
    decay_in_moment: bool,
    max_norm_kind: bool,
    first_run: bool | None,
) -> None:
    """`operations.novograd` in plain torch."""
    if not params or is_skipped(state.skip):
        return
    now = norms * state.grad_factor
    first_now = _is_first(state) if first_run is None else first_run
    blended = rules.blended_norms(grad_norms, now, beta2=betas[1], as_squares=not max_norm_kind, first_run=first_now)
    values, first = rules.novograd(
        _scaled(grads, params, state),
        widened(params),
        widened(exp_avgs, params),
        blended,
        lr=coefficient(state.lr),
        beta1=betas[0],
        beta3=1.0 - betas[0] if grad_averaging else 1.0,
        eps=eps,
        decay=weight_decay,
        decay_in_moment=decay_in_moment,
        correction1=coefficient(state.bias_correction1),
        correction2=state.bias_correction2.sqrt(),
    )
    commit([grad_norms], [blended], state.skip)
    commit(exp_avgs, first, state.skip)
    _commit_params(params, model_params, values, state)


@torch.no_grad()
def adagrad(
    grads: Tensors,
    params: Tensors,
    sums: Tensors,
    state: StepState,
    *,
    model_params: Tensors | None,
    eps: float,
    weight_decay: float,
    decoupled: bool,
) -> None:
    """`operations.adagrad` in plain torch."""
    if not params or is_skipped(state.skip):
        return
    values, totals = rules.adagrad(
        _scaled(grads, params, state),
        widened(params),
        widened(sums, params),
        lr=coefficient(state.lr),
        eps=eps,
        decay=weight_decay,
        decoupled=decoupled,
    )
    commit(sums, totals, state.skip)
    _commit_params(params, model_params, values, state)


def _scaled(grads: Tensors, params: Tensors, state: StepState) -> list[Tensor]:
    factor = coefficient(state.grad_factor)
    wide = widened(grads, params)
    return wide if isinstance(factor, float) and factor == 1.0 else list(torch._foreach_mul(wide, factor))


def _is_first(state: StepState) -> bool | Tensor:
    first = state.step == 1
    return bool(first.item()) if first.device.type == "cpu" else first


def _commit_params(params: Tensors, model_params: Tensors | None, values: Tensors, state: StepState) -> None:
    commit(params, values, state.skip)
    if model_params is not None:
        commit(model_params, values, state.skip)
