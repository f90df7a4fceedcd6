"""Owns what processes that train one model agree on: masters that start alike, and steps that all skip or none."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from .enrolment import Enrolment
from .gradients import parameters_of
from .links import link_of, trains_with_others
from .scaler import LossScaler

_wraps: weakref.WeakSet[DistributedDataParallel] = weakref.WeakSet()


def see_wrap(module: nn.Module) -> None:
    """Take note of the DistributedDataParallel that `module` is, or in whose forward it runs at the moment.

    Scripts wrap after `amp.initialize`, so that this is the first chance to know. The wrap made the model's weights
    the same in all processes when it was built; now the masters become so too.
    """
    wrap = module if isinstance(module, DistributedDataParallel) else DistributedDataParallel._active_ddp_module
    if wrap is None or wrap in _wraps or not torch.is_grad_enabled():
        return
    _wraps.add(wrap)
    group = wrap.process_group
    if group.size() > 1:
        _share_masters(wrap, group)


def agree(
    optimizer: Optimizer, enrolment: Enrolment, found_inf: torch.Tensor | None, scalers: list[LossScaler]
) -> torch.Tensor | None:
    """`found_inf` of whichever process overflowed, and the same for the `scalers` that are about to decide."""
    groups = _groups_of(optimizer, enrolment)
    if not groups:
        return found_inf
    device = next(parameters_of(optimizer)).device
    nothing = torch.zeros((), device=device)
    pending = [found_inf, *(scaler.pending for scaler in scalers)]
    flags = torch.stack([nothing if flag is None else flag.to(device, non_blocking=True) for flag in pending])
    for group in groups:
        torch.distributed.all_reduce(flags, op=torch.distributed.ReduceOp.MAX, group=group)
    for scaler, flag in zip(scalers, flags[1:], strict=True):
        scaler.note(flag)
    return flags[0]


def sums_by_hand(optimizer: Optimizer, enrolment: Enrolment) -> bool:
    """Whether gradients may have been summed over processes by the script itself, after they were looked at."""
    return trains_with_others() and not _groups_of(optimizer, enrolment)


def _groups_of(optimizer: Optimizer, enrolment: Enrolment) -> list[Any]:
    """The groups of processes that step the same parameters as `optimizer`, of more than one process."""
    first = next(parameters_of(optimizer), None)
    mesh = None if type(first) is nn.Parameter else getattr(first, "device_mesh", None)
    if mesh is not None:
        return [group for group in mesh.get_all_groups() if group.size() > 1]
    if not _wraps:
        return []
    models = enrolment.masters.models() if enrolment.masters is not None else ()
    mine = {id(parameter) for parameter in (*parameters_of(optimizer), *models)}
    return [wrap.process_group for wrap in list(_wraps) if wrap.process_group.size() > 1 and _steps(wrap, mine)]


def _steps(wrap: DistributedDataParallel, parameters: set[int]) -> bool:
    # In its `join`, processes that ran out of data answer for the wrap's own sums alone.
    joins = getattr(getattr(wrap, "_join_config", None), "enable", False)
    return not joins and any(id(parameter) in parameters for parameter in wrap.module.parameters())


def _share_masters(wrap: DistributedDataParallel, group: Any) -> None:
    source = torch.distributed.get_global_rank(group, 0)
    for parameter in wrap.module.parameters():
        link = link_of(parameter)
        if link is not None:
            torch.distributed.broadcast(link.master.detach(), src=source, group=group)
            # The model has the rounded value already, and a graph that must not see it written again.
            link.master_version = link.master._version
