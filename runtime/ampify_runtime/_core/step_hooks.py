"""Owns the hooks around an optimizer's step: no casts inside, and no step on gradients that overflowed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from . import ambient
from .agreement import agree, sums_by_hand
from .enrolment import Enrolment
from .gradients import gradients_of, multiply_and_check, parameters_of
from .lending import Loan, borrows, lend, overflow_in
from .links import absorb_edits, publish, publish_edited, trains_with_others
from .masters import Masters
from .notices import warn_once
from .regions import Exits, close_region, open_region
from .scaler import LossScaler
from .scalers import all_scalers
from .skipped_step import Hidden, hide_gradients, show_gradients, stand_in_for
from .unscaled_backward import refuse_unscaled
from .unscaling import refresh_masters, sharing_parameters_with, unscale, warn_if_edited

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def hook_steps(optimizer: Optimizer, enrolment: Enrolment) -> None:
    """Watch over `optimizer`'s steps. The hooks are no part of its state dict, its copies or its pickles."""
    if "_optimizer_step_pre_hooks" not in vars(optimizer):
        # Its class does not call its parent's constructor. What torch does for one read from an old pickle, does here.
        Optimizer.__setstate__(optimizer, {"defaults": getattr(optimizer, "defaults", {})})
    enrolment.handles = (
        optimizer.register_step_pre_hook(_Before(enrolment)),
        optimizer.register_step_post_hook(_After(enrolment)),
    )


class _Before:
    """Before the step: put casts off, decide about the scale, and empty the step if gradients overflowed."""

    __slots__ = ("enrolment", "is_plain")

    def __init__(self, enrolment: Enrolment) -> None:
        self.enrolment = enrolment
        # Whether gradients are as they come from the backward, and the model's own weights are stepped.
        self.is_plain = not enrolment.policy.scales and enrolment.masters is None

    def __call__(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
        exits = open_region(self.enrolment, self.enrolment, sys._getframe(1))
        # A step that calls its parent class's step is one step.
        if exits is None:
            return None
        exits.enter_context(ambient.paused())
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None and self.is_plain:
            _warn_if_empty(optimizer, self.enrolment)
            return None
        step = _Step(optimizer, self.enrolment, exits)
        step.prepare()
        if closure is not None:
            return _with_closure(args, kwargs, step.around(closure))
        if not step.is_to_be_skipped():
            return None
        step.hide()
        return (stand_in_for(optimizer), *args[1:]), kwargs


class _After:
    """After the step: undo what was done before it."""

    __slots__ = ("enrolment",)

    def __init__(self, enrolment: Enrolment) -> None:
        self.enrolment = enrolment

    def __call__(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        close_region(self.enrolment)


class _Step:
    """One step of an optimizer, from before its first line to after its last."""

    __slots__ = ("enrolment", "exits", "hidden", "loan", "optimizer")

    def __init__(self, optimizer: Optimizer, enrolment: Enrolment, exits: Exits) -> None:
        self.optimizer = optimizer
        self.enrolment = enrolment
        self.exits = exits
        self.hidden: Hidden = []
        self.loan: Loan | None = None
        exits.callback(show_gradients, self.hidden)

    def prepare(self) -> None:
        """Have masters know what was done to the model, and the model get what the step does to masters.

        Raises RuntimeError for a second step in one scaled block.
        """
        _refuse_second_in_block(self.enrolment)
        masters = self.enrolment.masters
        if masters is not None:
            masters.adopt(self.optimizer)
            absorb_edits(masters.pairs)
            self.exits.callback(self.publish)

    def publish(self) -> None:
        """Give the model what the step did to masters, if it was not skipped.

        All of them: not every kernel tells torch that it wrote.
        """
        masters = self.enrolment.masters
        if masters is None or self.hidden:
            return
        # A loan notes what was written to both.
        (publish if self.loan is None else publish_edited)(masters.pairs)

    def hide(self) -> None:
        """Leave the step nothing to work on."""
        self._lend(None)
        self.hidden.extend(hide_gradients(self.optimizer))

    def around(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """`closure` with casts as outside of the step; what it computes may empty the rest of the step."""

        def evaluate() -> Any:
            self.publish()
            show_gradients(self.hidden)
            with ambient.resumed():
                loss = closure()
            if self.is_to_be_skipped():
                self.hide()
            return loss

        return evaluate

    def is_to_be_skipped(self) -> bool:
        """Decide about the scale; whether gradients overflowed and the optimizer cannot see to that by itself."""
        refuse_unscaled(self.enrolment)
        masters = self.enrolment.masters
        borrowing = masters is not None and borrows(self.optimizer, masters)
        if not borrowing:
            refresh_masters(self.optimizer, self.enrolment)
        if not self.enrolment.policy.scales:
            self._lend(masters if borrowing else None)
            if self.loan is None or not self.loan.models:
                _warn_if_empty(self.optimizer, self.enrolment)
            return False
        if borrowing:
            warn_if_edited(self.enrolment)
        found_inf, scalers = _settle(self.optimizer, self.enrolment)
        self._lend(masters if borrowing else None)
        if found_inf is None or _skips_by_itself(self.optimizer):
            for scaler in scalers:
                scaler.decide_on_device()
            if found_inf is None:
                _warn_if_empty(self.optimizer, self.enrolment)
            else:
                # Fused: the kernel itself looks, and nobody waits for the device.
                self._tell_kernel(found_inf)
                self.enrolment.skips.tell_later(found_inf, scalers)
            return False
        overflowed = _read_and_decide(found_inf, scalers)
        self.enrolment.skips.tell(overflowed, scalers)
        return overflowed

    def _lend(self, masters: Masters | None) -> None:
        """Let the step have the model's gradients and weights, or, without `masters`, no longer."""
        if masters is None and self.loan is None:
            return
        self.loan = None if masters is None else lend(masters)
        vars(self.optimizer)["loan"] = self.loan
        self.exits.callback(vars(self.optimizer).pop, "loan", None)

    def _tell_kernel(self, found_inf: torch.Tensor) -> None:
        values = vars(self.optimizer)
        values.update(grad_scale=None, found_inf=found_inf)
        self.exits.callback(values.pop, "found_inf", None)
        self.exits.callback(values.pop, "grad_scale", None)


def _refuse_second_in_block(enrolment: Enrolment) -> None:
    if enrolment.has_stepped_in_block:
        raise RuntimeError(
            f"{enrolment.name}.step: a second step in one amp.scale_loss block; the first unscaled gradients, and a "
            "backward after it adds scaled ones. Open a block of its own for each backward that is stepped on"
        )
    enrolment.has_stepped_in_block = enrolment.is_in_block


def _skips_by_itself(optimizer: Optimizer) -> bool:
    """Whether all that the step does is done by a kernel that looks for overflow; a subclass may do more."""
    kind = type(optimizer)
    if vars(kind).get("takes_model_gradients", False):
        # One of ours.
        return bool(optimizer.skips_by_itself())  # type: ignore[attr-defined]
    return kind.__module__.startswith("torch.optim.") and bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def _with_closure(args: tuple[Any, ...], kwargs: dict[str, Any], closure: Callable[[], Any]) -> Arguments:
    if "closure" in kwargs:
        return args, kwargs | {"closure": closure}
    return (args[0], closure, *args[2:]), kwargs


def _read_and_decide(found_inf: torch.Tensor, scalers: list[LossScaler]) -> bool:
    """Read whether gradients overflowed, and have scales decided with what was noted for each: one wait for all."""
    flags = [found_inf if scaler.pending is None else scaler.pending for scaler in scalers]
    if all(flag is found_inf for flag in flags):
        overflowed = bool(found_inf.item())
        answers = [overflowed] * len(flags)
    else:
        there = found_inf.device
        read = torch.stack([found_inf, *(flag.to(there, non_blocking=True) for flag in flags)]).tolist()
        overflowed, *answers = map(bool, read)
    for scaler, answer in zip(scalers, answers, strict=True):
        scaler.decide(answer)
    return overflowed


def _settle(optimizer: Optimizer, enrolment: Enrolment) -> tuple[torch.Tensor | None, list[LossScaler]]:
    """Unscale what is still scaled; whether gradients overflowed, and whose scales are to be decided upon."""
    concerned = [scaler for scaler in all_scalers() if scaler.awaits(enrolment)]
    if enrolment.scaled_by is not None:
        unscale(sharing_parameters_with(optimizer))
        enrolment.found_inf = None
    found_inf = enrolment.found_inf if enrolment.has_scaled_backward else None
    has_others = trains_with_others()
    if found_inf is None or (has_others and sums_by_hand(optimizer, enrolment)):
        masters = enrolment.masters
        if masters is not None and borrows(optimizer, masters):
            found_inf = overflow_in([*masters.own_gradients(optimizer), *masters.model_gradients()])
        else:
            found_inf = multiply_and_check(gradients_of(optimizer), None)
        _note_all(concerned, found_inf)
    if has_others:
        found_inf = agree(optimizer, enrolment, found_inf, concerned)
    if found_inf is not None and not enrolment.has_scaled_backward:
        _warn_of_unscaled_backward(enrolment)
    enrolment.has_scaled_backward = False
    return found_inf, concerned


def _note_all(scalers: list[LossScaler], found_inf: torch.Tensor | None) -> None:
    for scaler in scalers:
        if found_inf is not None:
            scaler.note(found_inf)


def _warn_if_empty(optimizer: Optimizer, enrolment: Enrolment) -> None:
    for parameter in parameters_of(optimizer):
        if parameter.grad is not None:
            return
    warn_once(
        f"no gradients, {enrolment.name}",
        f"{enrolment.name}.step: none of its parameters has a gradient, so it changes nothing; look for a backward "
        "that is missing, or that another model's parameters get",
    )


def _warn_of_unscaled_backward(enrolment: Enrolment) -> None:
    warn_once(
        f"unscaled backward, {enrolment.name}",
        f"{enrolment.name}.step: no amp.scale_loss block was given this optimizer since its last step, so its "
        "gradients may come from an unscaled backward, where float16 gradients vanish; run the backward inside "
        "`with amp.scale_loss(loss, optimizer) as scaled_loss:`",
    )
