"""Owns what `amp.initialize` does: settle a policy, and put models and optimizers under it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import LBFGS, Optimizer

from . import ambient
from .enrolment import dismiss, enrol, enrolment_of, require_optimizer
from .forward_casts import cast_forwards, leave_forwards_alone
from .gradients import parameters_of
from .links import drop_originals
from .model_casts import cast_model, cast_outputs, refuse_uncastable, uncast_model
from .notices import warn, warn_once
from .permissions import permissions
from .policy import Policy, Request, resolve_policy
from .reduced_states import reduce_state
from .regions import leave_dead_regions
from .scalers import is_initialized, provide_scalers
from .step_hooks import hook_steps
from .unscaled_backward import stop_watching, watch_backwards


def initialize(models: Any, optimizers: Any, request: Request, num_losses: int) -> Any:
    """Put models and optimizers under the policy that `request` asks for; they come back as they were given.

    Raises TypeError for what is no model or optimizer, ValueError for choices that cannot be had.
    """
    # After a step that raised: what it put off would stay off.
    leave_dead_regions()
    model_list = [_require_model(model) for model in _listed(models)]
    optimizer_list = [require_optimizer(item, "amp.initialize: optimizers") for item in _listed(optimizers)]
    policy = resolve_policy(request, _device_type(model_list, optimizer_list))
    if policy.model_dtype is not None:
        for model in model_list:
            refuse_uncastable(model)
    if policy.scales:
        _refuse_sharded(model_list)
        _refuse_unscalable(optimizer_list, policy)
    _tell_if_inert(policy)
    again = _is_known(optimizer_list, policy)
    if not again:
        _tell_if_again(policy, optimizer_list)
        for optimizer in optimizer_list:
            dismiss(optimizer)
    _put_models_under(policy, model_list, trains=bool(optimizer_list))
    if not again:
        _put_optimizers_under(policy, optimizer_list, num_losses)
        _remember_order(model_list, optimizer_list)
    drop_originals()
    return models if optimizers is None else (models, optimizers)


def _is_known(optimizers: list[Optimizer], policy: Policy) -> bool:
    """Whether all of these are under the same policy already."""
    known = [enrolment_of(optimizer) for optimizer in optimizers]
    return bool(known) and all(enrolment is not None and enrolment.policy == policy for enrolment in known)


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    # A Sequential or a ModuleList is iterable, and one model.
    single = isinstance(given, (nn.Module, Optimizer)) or not isinstance(given, Iterable)
    # What a script makes only where it is asked for is None elsewhere.
    return [given] if single else [item for item in given if item is not None]


def _require_model(value: Any) -> nn.Module:
    if isinstance(value, nn.Module):
        return value
    raise TypeError(
        f"amp.initialize: models: {type(value).__name__} is no torch.nn.Module; pass a module or a list of them"
    )


def _device_type(models: list[nn.Module], optimizers: list[Optimizer]) -> str:
    """The type of the device that does the work: of several, the one that is not the CPU."""
    tensors: list[torch.Tensor] = [parameter for model in models for parameter in model.parameters()]
    tensors += [parameter for optimizer in optimizers for parameter in parameters_of(optimizer)]
    types = [tensor.device.type for tensor in tensors]
    return next((device_type for device_type in types if device_type != "cpu"), "cpu")


def _refuse_sharded(models: list[nn.Module]) -> None:
    """By name: to import what shards costs more than all the rest, and few scripts have it."""
    if any(type(module).__name__ == "FullyShardedDataParallel" for model in models for module in model.modules()):
        raise ValueError(
            "amp.initialize: the model is in FullyShardedDataParallel, whose processes see only their own overflows "
            "and would not skip together; shard it with torch.distributed.fsdp.fully_shard instead, or use "
            'opt_level="O4", which scales nothing'
        )


def _refuse_unscalable(optimizers: list[Optimizer], policy: Policy) -> None:
    for optimizer in optimizers:
        name = type(optimizer).__name__
        if isinstance(optimizer, LBFGS):
            raise ValueError(
                f"amp.initialize: {name} evaluates its closure many times a step and cannot skip one that overflows; "
                'use opt_level="O4", which needs no loss scaling, or "O0"'
            )
        # O2 and O3 take them as they are.
        takes = policy.model_dtype is not None or policy.has_masters or permissions.reduced_parameters
        if not takes and any(p.dtype is torch.float16 for p in parameters_of(optimizer)):
            raise ValueError(
                f"amp.initialize: {name} has float16 parameters, whose gradients cannot be unscaled; opt level "
                f"{policy.opt_level} casts by itself: remove the script's own .half() calls"
            )


def _tell_if_inert(policy: Policy) -> None:
    if policy.inert_because is not None and policy.verbosity > 0:
        warn_once(policy.inert_because, policy.inert_because)


def _put_models_under(policy: Policy, models: list[nn.Module], trains: bool) -> None:
    # The last training set up decides: a run at O0 after one at O1 in the same process is to compute in fp32.
    if policy.cast_dtype is None and trains:
        ambient.withdraw()
    for model in models:
        if policy.model_dtype is None:
            uncast_model(model)
        else:
            cast_model(model, policy.model_dtype, policy.output_dtype or torch.float32, policy.keeps_norms)
        if policy.model_dtype is None and policy.output_dtype is not None:
            cast_outputs(model, policy.output_dtype)
        if policy.cast_dtype is None:
            leave_forwards_alone(model)
        else:
            cast_forwards(model, policy.device_type, policy.cast_dtype)
        stop_watching(model)
        if policy.scales or policy.has_masters:
            watch_backwards(model, policy.scales)
    if models and policy.cast_dtype is not None:
        ambient.establish(policy.device_type, policy.cast_dtype)


def _put_optimizers_under(policy: Policy, optimizers: list[Optimizer], num_losses: int) -> None:
    if optimizers or not is_initialized():
        provide_scalers(policy, num_losses)
    for optimizer in optimizers:
        enrolment = enrol(optimizer, policy)
        if policy.model_dtype is not None and not policy.has_masters:
            reduce_state(optimizer)
        if policy.acts:
            hook_steps(optimizer, enrolment)


def _remember_order(models: list[nn.Module], optimizers: list[Optimizer]) -> None:
    """Groups may hold the models' parameters in another order than these."""
    grouped = [optimizer for optimizer in optimizers if len(optimizer.param_groups) > 1]
    parameters = [parameter for model in models for parameter in model.parameters()] if grouped else []
    for optimizer in grouped:
        enrolment = enrolment_of(optimizer)
        if enrolment is not None and enrolment.masters is None:
            enrolment.places = {id(parameter): place for place, parameter in enumerate(parameters)}


def _tell_if_again(policy: Policy, optimizers: list[Optimizer]) -> None:
    for optimizer in optimizers:
        former = enrolment_of(optimizer)
        if former is not None and former.policy.opt_level != policy.opt_level and policy.verbosity > 0:
            warn(
                f"amp.initialize: this {former.name} was initialized before, at opt level "
                f"{former.policy.opt_level}; from now on it is at {policy.opt_level}"
            )
