"""Owns the block of `scale_loss`: scaled inside, and gradients that read unscaled after it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable
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
from .unscaled_backward import backwards_are_scaled, forget_zeroed
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

    def settle(self, delay_overflow_check: bool) -> None:
        """Take note of what overflowed in this block, now that gradients are unscaled."""
        news = []
        for enrolment, before in self.overflowed_before.items():
            if delay_overflow_check or enrolment.scaled_by is not None:
                enrolment.found_inf = None
            elif enrolment.found_inf is not None:
                news.append(_new(enrolment.found_inf, before))
                self.scaler.note(news[-1])
        if len(news) > 1:
            self._share(news)

    def _share(self, news: list[torch.Tensor]) -> None:
        """All optimizers of a loss that overflowed skip: to step some would train them on what the others do not."""
        joint = functools.reduce(torch.maximum, (new.to(news[0].device, non_blocking=True) for new in news))
        for enrolment in self.overflowed_before:
            found_inf = enrolment.found_inf
            if found_inf is not None:
                enrolment.found_inf = torch.maximum(found_inf, joint.to(found_inf.device, non_blocking=True))


class _Open(threading.local):
    """The outermost open block of a thread."""

    def __init__(self) -> None:
        self.block: _Block | None = None


_open = _Open()


class ScaledLoss:
    """The block of `amp.scale_loss`, which see: yields the scaled loss. A class, since generators cost more a step."""

    __slots__ = (
        "_block",
        "_delay_overflow_check",
        "_delay_unscale",
        "_delayed",
        "_everyone",
        "_given",
        "_loss",
        "_loss_id",
        "_optimizers",
        "_pause",
    )

    def __init__(
        self, loss: Any, optimizers: Any, loss_id: Any, delay_unscale: bool, delay_overflow_check: bool
    ) -> None:
        self._loss = loss
        self._optimizers = optimizers
        self._loss_id = loss_id
        self._delay_unscale = delay_unscale
        self._delay_overflow_check = delay_overflow_check
        self._pause = ambient.paused()
        # Ours alone: None where nothing is scaled, and in a block inside of another.
        self._block: _Block | None = None
        self._given: list[Enrolled] = []
        self._everyone: list[Enrolled] = []
        self._delayed: set[Enrolment] = set()

    def __enter__(self) -> Any:
        given = self._given = _given(self._optimizers)
        leave_dead_regions()
        self._pause.__enter__()
        try:
            return self._opened(given)
        except BaseException:
            self._pause.__exit__()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._block is not None:
                self._close()
            elif kind is None and not self._delay_unscale and not _scale(self._given):
                _refresh(self._given)
        finally:
            self._pause.__exit__()

    def _opened(self, given: list[Enrolled]) -> Any:
        if not _scale(given):
            return self._loss
        losses = _tensors(self._loss)
        if _open.block is not None:
            # Its gradients end up among those of the outer block, so they must have the outer block's scale.
            _open.block.give(given)
            return _scaled(self._loss, losses, _open.block.scale)
        scaler = scaler_of(self._loss_id)
        block = _Block(scaler, scaler.scale_to_keep(losses[0].device), {})
        block.give(given)
        forget_zeroed()
        everyone = self._everyone = of_this_thread()
        self._delayed = {enrolment for _, enrolment in everyone if enrolment.scaled_by is not None}
        # All of this thread's: a loss may feed more parameters than those of the optimizers given with it.
        scale_existing(everyone, block.scale)
        self._block = _open.block = block
        _mark_in_block(everyone, True)
        backwards_are_scaled(True)
        try:
            return _scaled(self._loss, losses, block.scale)
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        block, self._block = self._block, None
        assert block is not None
        backwards_are_scaled(False)
        _open.block = None
        _mark_in_block(self._everyone, False)
        # What an earlier block left scaled stays so, unless this one was given it, and does not delay.
        mine = block.overflowed_before.keys()
        kept = self._delayed | mine if self._delay_unscale else self._delayed - mine
        unscale([known for known in of_this_thread() if known[1] not in kept])
        block.settle(self._delay_overflow_check)


def _scale(given: list[Enrolled]) -> bool:
    """Whether one of these optimizers has its losses scaled."""
    return any(enrolment.policy.scales for _, enrolment in given)


def _refresh(given: list[Enrolled]) -> None:
    for optimizer, enrolment in given:
        if enrolment.masters is not None and not borrows(optimizer, enrolment.masters):
            refresh_masters(optimizer, enrolment)


def _mark_in_block(everyone: list[Enrolled], is_open: bool) -> None:
    for _, enrolment in everyone:
        enrolment.is_in_block = is_open
        enrolment.has_stepped_in_block = False


def _new(found_inf: torch.Tensor, before: torch.Tensor | None) -> torch.Tensor:
    """What of `found_inf` is this block's: an earlier block's overflow is no reason to lower this one's scale."""
    return found_inf if before is None else torch.relu(found_inf - before.to(found_inf.device))


def _given(optimizers: Any) -> list[Enrolled]:
    if not is_initialized():
        raise RuntimeError(
            "amp.scale_loss: amp.initialize has not been called; call "
            "`model, optimizer = amp.initialize(model, optimizer)` before the training loop"
        )
    if isinstance(optimizers, Optimizer):
        return [_enrolled(optimizers)]
    if optimizers is None:
        return of_this_thread() or enrolled()
    return [_enrolled(optimizer) for optimizer in (optimizers if isinstance(optimizers, Iterable) else [optimizers])]


def _enrolled(value: Any) -> tuple[Optimizer, Enrolment]:
    optimizer = value if isinstance(value, Optimizer) else require_optimizer(value, "amp.scale_loss: optimizers")
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
    # In reduced precision the product itself would overflow. Of two that have no dimension, it is in fp32 anyway.
    return loss.float() if loss.dim() and loss.dtype in _REDUCED else loss
