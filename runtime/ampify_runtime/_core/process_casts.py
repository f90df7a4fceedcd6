"""Owns what `amp.init` settles for the process: casts with no model to hang them on, and optimizers that join later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.optim import Optimizer

from . import ambient, cast_overrides
from .enrolment import enrolment_of
from .initialize import initialize
from .notices import warn, warn_once
from .policy import Request, resolve_policy
from .scalers import provide_scalers
from .trainers import optimizers_in
from .unscaling import refresh_masters, sharing_parameters_with, unscale


@dataclass(slots=True)
class _State:
    settled: Request | None = None


_state = _State()


def start_casting(request: Request, lists: str, allow_banned: bool) -> None:
    """Cast in this thread as `request` says, on CUDA if there is a device, else on the CPU; see `amp.init`."""
    policy = resolve_policy(request, "cuda" if torch.cuda.is_available() else "cpu")
    if policy.inert_because is not None and policy.verbosity > 0:
        warn_once(policy.inert_because, policy.inert_because)
    _state.settled = request
    provide_scalers(policy, 1)
    if policy.cast_dtype is None:
        ambient.withdraw()
    else:
        ambient.establish(policy.device_type, policy.cast_dtype)
    follow_casts(lists, allow_banned)


def stop_casting() -> None:
    """Stop casting in this thread outside of the models, and leave autocast as torch made it."""
    ambient.withdraw()
    cast_overrides.withdraw()


def follow_casts(lists: str, allow_banned: bool = False) -> None:
    """Have `lists` in force if this thread casts by now, else none."""
    if not ambient.casts_anywhere():
        cast_overrides.withdraw()
        return
    before = cast_overrides.lists_in_force()
    if before not in (None, lists):
        warn(
            f"amp: the cast lists of the process change from {before!r} to {lists!r}, also for models initialized "
            f'before; to keep them, pass cast_lists="{before}" to every amp.initialize'
        )
    cast_overrides.put_in_force(lists, allow_banned)


def join_optimizers(optimizers: list[Optimizer], num_losses: int = 1) -> None:
    """Put `optimizers` under what `amp.init` settled. Raises RuntimeError if it has not been called."""
    if _state.settled is None:
        raise RuntimeError(
            "amp.init_trainer: amp.init has not been called; call amp.init() before it, or use "
            "`model, optimizer = amp.initialize(model, optimizer)` instead of both"
        )
    # The optimizer's device may be another than the process casts on, and it has been told of what is not done.
    initialize(None, optimizers, replace(_state.settled, verbosity=0), num_losses)


def require_trainer(trainer: Any, where: str) -> list[Optimizer]:
    """The optimizers of `trainer`. Raises TypeError if there are none."""
    optimizers = optimizers_in(trainer)
    if not optimizers:
        raise TypeError(
            f"{where}: {type(trainer).__name__} is no torch.optim.Optimizer, and holds none as .optimizer or "
            ".optimizers; pass the optimizer that steps"
        )
    return optimizers


def known_optimizers(given: Any) -> Any:
    """`given`, with initialized optimizers in place of the trainers that hold them."""
    if given is None or isinstance(given, Optimizer):
        return given
    if isinstance(given, Iterable):
        return [optimizer for item in given if item is not None for optimizer in _inside(item)]
    inside = _inside(given)
    return given if inside == [given] else inside


def unscale_now(optimizers: list[Optimizer]) -> None:
    """Divide gradients that are still scaled; their step looks for overflow all the same.

    Raises RuntimeError if an optimizer was not initialized.
    """
    for optimizer in optimizers:
        enrolment = enrolment_of(optimizer)
        if enrolment is None:
            raise RuntimeError(
                f"amp.unscale: this {type(optimizer).__name__} is not known; give it to amp.init_trainer or "
                "amp.initialize first"
            )
        refresh_masters(optimizer, enrolment)
        if enrolment.scaled_by is None:
            continue
        shared = sharing_parameters_with(optimizer)
        unscale(shared)
        for _, other in shared:
            other.found_inf = None


def forget_settled() -> None:
    """Return to where no `amp.init` has been called."""
    _state.settled = None


def _inside(item: Any) -> list[Any]:
    optimizers = optimizers_in(item)
    known = optimizers and all(enrolment_of(optimizer) is not None for optimizer in optimizers)
    return list(optimizers) if known else [item]
