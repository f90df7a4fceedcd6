"""The optimizers' updates by the kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import reference
from ..engine import THREADS
from ..state import StepState
from .launching import Plan, plan_of

Tensors = Sequence[Tensor]


def _plan(
    family: str, grads: Tensors, params: Tensors, states: Sequence[Tensors], model_params: Tensors | None
) -> Plan | None:
    """Lists in the order of every update: gradients, parameters, state, model's copy; kinds of state share a dtype."""

    def values(types: tuple[str, ...]) -> tuple[str, ...] | None:
        grad, param, *of_state, model = types
        # LAMB's second pass reads the state that its first one wrote, and must find it unrounded.
        known = len(set(of_state)) == 1 and (family != "lamb" or of_state[0] == "float32")
        return (grad, param, of_state[0], model) if known else None

    lists = (grads, params, *(states or (None,)), model_params)
    return plan_of(family, lists, values, read_only=1)


def _first(first_run: bool | None) -> int:
    return -1 if first_run is None else int(first_run)


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
    """`operations.adam` by its kernel."""
    plan = _plan("adam", grads, params, (exp_avgs, exp_avg_sqs), model_params)
    if plan is None:
        reference.adam(
            grads,
            params,
            exp_avgs,
            exp_avg_sqs,
            state,
            model_params=model_params,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            decoupled=decoupled,
        )
        return
    factors = (betas[0], 1.0 - betas[0], betas[1], 1.0 - betas[1], eps, weight_decay)
    for launch in plan.launches(widest=5):
        launch.over("adam", (0, 1, 2, 3, _model(model_params, 4)), state.values, *factors, decoupled)


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
    """`operations.sgd` by its kernel."""
    states = () if momentum_buffers is None else (momentum_buffers,)
    plan = _plan("sgd", grads, params, states, model_params)
    if plan is None:
        reference.sgd(
            grads,
            params,
            momentum_buffers,
            state,
            model_params=model_params,
            momentum=momentum,
            dampening=dampening,
            nesterov=nesterov,
            weight_decay=weight_decay,
            wd_after_momentum=wd_after_momentum,
            first_run=first_run,
        )
        return
    lists = (0, 1, None if momentum_buffers is None else 2, _model(model_params, 3))
    factors = (momentum, 1.0 - dampening, weight_decay, nesterov, wd_after_momentum, _first(first_run))
    for launch in plan.launches(widest=4):
        launch.over("sgd", lists, state.values, *factors)


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
    """`operations.lamb` by its three kernels."""
    plan = _plan("lamb", grads, params, (exp_avgs, exp_avg_sqs), model_params)
    if plan is None:
        reference.lamb(
            grads,
            params,
            exp_avgs,
            exp_avg_sqs,
            state,
            model_params=model_params,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            decoupled=decoupled,
            grad_averaging=grad_averaging,
            use_nvlamb=use_nvlamb,
        )
        return
    of_grad, of_update = (0.0, weight_decay) if decoupled else (weight_decay, 0.0)
    averaging = 1.0 - betas[0] if grad_averaging else 1.0
    factors = (betas[0], averaging, betas[1], 1.0 - betas[1], eps, of_grad, of_update)
    ratios = torch.empty(len(params), dtype=torch.float32, device=params[0].device)
    for launch in plan.launches(widest=4):
        squares = launch.of_blocks(ratios, numbers=2)
        launch.over("lamb_moments", (0, 1, 2, 3), state.values, squares, *factors)
        launch.sum_up("lamb_ratios", state.values, squares, ratios, use_nvlamb or weight_decay != 0.0)
        applied = (1, 2, 3, _model(model_params, 4))
        launch.over("lamb_apply", applied, state.values, ratios, eps, of_update)


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
    """`operations.novograd` by its two kernels."""
    plan = _plan("novograd", grads, params, (exp_avgs,), model_params)
    if plan is None or not grad_norms.is_contiguous():
        reference.novograd(
            grads,
            params,
            exp_avgs,
            grad_norms,
            state,
            norms,
            model_params=model_params,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            grad_averaging=grad_averaging,
            decay_in_moment=decay_in_moment,
            max_norm_kind=max_norm_kind,
            first_run=first_run,
        )
        return
    count, now = len(params), norms.contiguous()
    blend = (betas[1], 1.0 - betas[1], max_norm_kind, _first(first_run))
    grid = (-(-count // THREADS), 1)
    plan.engine.launch(plan.batches[0][0], "novograd_norms", grid, grad_norms, now, count, state.values, *blend)
    averaging = 1.0 - betas[0] if grad_averaging else 1.0
    factors = (betas[0], averaging, eps, weight_decay, decay_in_moment)
    for launch in plan.launches(widest=4):
        launch.over("novograd", (0, 1, 2, _model(model_params, 3)), state.values, grad_norms, *factors)


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
    """`operations.adagrad` by its kernel."""
    plan = _plan("adagrad", grads, params, (sums,), model_params)
    if plan is None:
        reference.adagrad(
            grads,
            params,
            sums,
            state,
            model_params=model_params,
            eps=eps,
            weight_decay=weight_decay,
            decoupled=decoupled,
        )
        return
    for launch in plan.launches(widest=4):
        launch.over("adagrad", (0, 1, 2, _model(model_params, 3)), state.values, eps, weight_decay, decoupled)


def _model(model_params: Tensors | None, place: int) -> int | None:
    return None if model_params is None else place
