"""Owns the block of `scale_loss`: scaled inside, and gradients that read unscaled after it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Optimizer

from . import ambient
from .enrolment import Enrolment, enrolled, enrolment_of, require_optimizer
from .lending import borrows
from .regions import leave_dead_regions
from .scaler import LossScaler
from .scalers import is_initialized, scaler_of
from .unscaled_backward import forget_zeroed, scaled_backward
from .unscaling import Enrolled, of_this_thread, refresh_masters, scale_existing, unscale

_REDUCED = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class _Block:
    """An open block: its scale, and the optimizers that were given to it or to blocks inside of it."""

    scaler: LossScaler
    scale: torch.Tensor
    # With what was known of their overflow from blocks since their last step.
    overflowed_before: dict[Enrolment, torch.Tensor | None]

    def give(self, given: Iterable[Enrolled]) -> None:
        """Take note of optimizers whose gradients this block makes."""
        for _, enrolment in given:
            if enrolment in self.overflowed_before:
                continue
            self.overflowed_before[enrolment] = enrolment.found_inf if enrolment.has_scaled_backward else None
            enrolment.has_scaled_backward = True
            enrolment.thread = threading.get_ident()
            self.scaler.expect_step(enrolment)


class _Open(threading.local):
    """The outermost open block of a thread."""

    def __init__(self) -> None:
        self.block: _Block | None = None


_open = _Open()


@contextmanager
def scaled_loss(
    loss: Any, optimizers: Any, loss_id: Any, delay_unscale: bool, delay_overflow_check: bool
) -> Iterator[Any]:
    """The scaled loss, for the time of a `with` block; see `amp.scale_loss`."""
    given = _given(optimizers)
    leave_dead_regions()
    with ambient.paused():
        if not any(enrolment.policy.scales for _, enrolment in given):
            yield loss
            if not delay_unscale:
                for optimizer, enrolment in given:
                    if not borrows(optimizer, enrolment.masters):
                        refresh_masters(optimizer, enrolment)
        elif _open.block is not None:
            # Its gradients end up among those of the outer block, so they must have the outer block's scale.
            _open.block.give(given)
            yield _scaled(loss, _tensors(loss), _open.block.scale)
        else:
            with _block(loss, given, scaler_of(loss_id), delay_unscale, delay_overflow_check) as scaled:
                yield scaled


@contextmanager
def _block(
    loss: Any, given: list[Enrolled], scaler: LossScaler, delay_unscale: bool, delay_overflow_check: bool
) -> Iterator[Any]:
    losses = _tensors(loss)
    # A copy: a step decides about the scale in place.
    block = _Block(scaler, scaler.scale_on(losses[0].device).clone(), {})
    block.give(given)
    forget_zeroed()
    everyone = of_this_thread()
    delayed = {enrolment for _, enrolment in everyone if enrolment.scaled_by is not None}
    # All of this thread's: a loss may feed more parameters than those of the optimizers given with it.
    scale_existing(everyone, block.scale)
    _open.block = block
    _mark_in_block(everyone, True)
    try:
        with scaled_backward():
            yield _scaled(loss, losses, block.scale)
    finally:
        _open.block = None
        _mark_in_block(everyone, False)
        # What an earlier block left scaled stays so, unless this one was given it, and does not delay.
        mine = set(block.overflowed_before)
        _close(block, delayed | mine if delay_unscale else delayed - mine, delay_overflow_check)


def _mark_in_block(everyone: list[Enrolled], is_open: bool) -> None:
    for _, enrolment in everyone:
        enrolment.is_in_block = is_open
        enrolment.has_stepped_in_block = False


def _close(block: _Block, kept: set[Enrolment], delay_overflow_check: bool) -> None:
    unscale((optimizer, enrolment) for optimizer, enrolment in of_this_thread() if enrolment not in kept)
    news = []
    for enrolment, before in block.overflowed_before.items():
        if delay_overflow_check or enrolment.scaled_by is not None:
            enrolment.found_inf = None
        elif enrolment.found_inf is not None:
            news.append(_new(enrolment.found_inf, before))
            block.scaler.note(news[-1])
    if len(news) > 1:
        _share(block, news)


def _share(block: _Block, news: list[torch.Tensor]) -> None:
    """All optimizers of a loss that overflowed skip: to step some would train them against what the others are not."""
    joint = functools.reduce(torch.maximum, (new.to(news[0].device, non_blocking=True) for new in news))
    for enrolment in block.overflowed_before:
        found_inf = enrolment.found_inf
        if found_inf is not None:
            enrolment.found_inf = torch.maximum(found_inf, joint.to(found_inf.device, non_blocking=True))


def _new(found_inf: torch.Tensor, before: torch.Tensor | None) -> torch.Tensor:
    """What of `found_inf` is this block's: an earlier block's overflow is no reason to lower this one's scale."""
    return found_inf if before is None else torch.relu(found_inf - before.to(found_inf.device))


def _given(optimizers: Any) -> list[Enrolled]:
    if not is_initialized():
        raise RuntimeError(
            "amp.scale_loss: amp.initialize has not been called; call "
            "`model, optimizer = amp.initialize(model, optimizer)` before the training loop"
        )
    if optimizers is None:
        return of_this_thread() or enrolled()
    several = not isinstance(optimizers, Optimizer) and isinstance(optimizers, Iterable)
    return [_enrolled(optimizer) for optimizer in (optimizers if several else [optimizers])]


def _enrolled(value: Any) -> tuple[Optimizer, Enrolment]:
    optimizer = require_optimizer(value, "amp.scale_loss: optimizers")
    enrolment = enrolment_of(optimizer)
    if enrolment is None:
        raise RuntimeError(
            f"amp.scale_loss: this {type(optimizer).__name__} was not given to amp.initialize; "
            "give it there, also where it was made anew during training"
        )
    return optimizer, enrolment


def _tensors(loss: Any) -> list[torch.Tensor]:
    if isinstance(loss, torch.Tensor):
        return [loss]
    if isinstance(loss, Iterable) and not isinstance(loss, (str, dict)):
        losses = list(loss)
        if losses and all(isinstance(item, torch.Tensor) for item in losses):
            return losses
    raise TypeError(f"amp.scale_loss: loss is {type(loss).__name__}; pass a tensor, or a list or tuple of tensors")


def _scaled(loss: Any, losses: list[torch.Tensor], scale: torch.Tensor) -> Any:
    """`losses` times `scale`, in the shape of `loss`: a tensor, a tuple, or else a list."""
    scaled = [_in_full(item) * scale.to(item.device, non_blocking=True) for item in losses]
    if isinstance(loss, torch.Tensor):
        return scaled[0]
    return tuple(scaled) if isinstance(loss, tuple) else scaled


def _in_full(loss: torch.Tensor) -> torch.Tensor:
    # In reduced precision the product itself would overflow.
    return loss.float() if loss.dtype in _REDUCED else loss
