"""Moves an optimizer's gradients between scaled and unscaled, exactly, and notes where they overflowed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import torch
from torch.optim import Optimizer

from .agreement import sums_by_hand
from .enrolment import Enrolment, enrolled, enrolment_of
from .gradients import gradients_of, multiply, multiply_and_check, parameters_of
from .lending import borrows, overflow_in
from .notices import warn_once

Enrolled = tuple[Optimizer, Enrolment]


def of_this_thread() -> list[Enrolled]:
    """The optimizers that this thread trains with."""
    return enrolled(threading.get_ident())


def sharing_parameters_with(optimizer: Optimizer) -> list[Enrolled]:
    """Those of this thread that hold a parameter of `optimizer`, itself included: to be unscaled together, once."""
    mine = set(map(id, parameters_of(optimizer)))
    return [known for known in of_this_thread() if not mine.isdisjoint(map(id, parameters_of(known[0])))]


def scale_existing(optimizers: Iterable[Enrolled], scale: torch.Tensor) -> None:
    """Multiply the gradients that there are by `scale`, shape [], so that a scaled backward adds to its like."""
    optimizers = list(optimizers)
    seen = _none_seen(optimizers)
    for optimizer, enrolment in optimizers:
        by, masters = enrolment.scaled_by, enrolment.masters
        factor = scale if by is None else scale / by.to(scale.device, non_blocking=True)
        if masters is not None:
            masters.adopt(optimizer)
            masters.scale_to(scale, _unseen(masters.model_gradients(), seen))
        grads = gradients_of(optimizer) if masters is None else masters.own_gradients(optimizer)
        multiply(_unseen(grads, seen), factor)
        enrolment.scaled_by = scale


def unscale(optimizers: Iterable[Enrolled]) -> None:
    """Divide the gradients by what they are scaled by, and note in `found_inf` whether all of them are finite.

    The gradients of a model with masters stay as they are: it is the masters that get them unscaled.
    """
    optimizers = [(optimizer, enrolment) for optimizer, enrolment in optimizers if enrolment.scaled_by is not None]
    for optimizer, enrolment in optimizers:
        if enrolment.masters is not None and not borrows(optimizer, enrolment.masters):
            enrolment.masters.gather()
    seen = _none_seen(optimizers)
    for optimizer, enrolment in optimizers:
        masters = enrolment.masters
        borrowed = [] if masters is None or masters.gathered else masters.model_gradients()
        grads = gradients_of(optimizer) if masters is None or masters.gathered else masters.own_gradients(optimizer)
        shared = [grad for grad in grads if id(grad) in seen] if seen else []
        # In float64, as GradScaler does: the reciprocal of a scale that is no power of two is rounded once.
        found_inf = multiply_and_check(_unseen(grads, seen), _inverse(enrolment.scaled_by))
        enrolment.found_inf = _either(_either(found_inf, multiply_and_check(shared, None)), overflow_in(borrowed))
        enrolment.scaled_by = None
        if masters is not None:
            masters.note_gathered(sums_by_hand(optimizer, enrolment))


def _either(left: torch.Tensor | None, right: torch.Tensor | None) -> torch.Tensor | None:
    """The larger of two flags, where there are two."""
    if left is None or right is None:
        return right if left is None else left
    return torch.maximum(left, right.to(left.device, non_blocking=True))


def refresh_masters(optimizer: Optimizer, enrolment: Enrolment) -> None:
    """Give the masters the model's gradients, unscaled, if theirs are not made of those that it has now."""
    masters = enrolment.masters
    if masters is None:
        return
    masters.adopt(optimizer)
    was_scaled = enrolment.scaled_by is not None
    if was_scaled:
        unscale(sharing_parameters_with(optimizer))
    if masters.is_stale():
        warn_if_edited(enrolment)
        masters.gather()
        if masters.scaled_by is not None:
            multiply(masters.gradients(), _inverse(masters.scaled_by))
        masters.note_gathered(sums_by_hand(optimizer, enrolment))
    elif not was_scaled:
        return
    # The step is to look for itself.
    enrolment.found_inf = None


def _inverse(scale: torch.Tensor | None) -> torch.Tensor:
    assert scale is not None
    return scale.double().reciprocal().float()


def warn_if_edited(enrolment: Enrolment) -> None:
    """Say that the model's gradients were changed where they are scaled."""
    if enrolment.policy.scales and enrolment.masters is not None and enrolment.masters.was_edited():
        warn_once(
            f"edited gradients, {enrolment.name}",
            f"{enrolment.name}: the model's gradients were changed after their backward, and at opt level "
            f"{enrolment.policy.opt_level} those are scaled. If this was a clip, it cut to far too little: clip "
            "amp.master_params(optimizer) instead of model.parameters(). A sum over processes is fine",
        )


def _none_seen(optimizers: list[Enrolled]) -> set[int] | None:
    """What `_unseen` starts with; None where there is nothing to tell apart: one optimizer, without masters."""
    return None if len(optimizers) == 1 and optimizers[0][1].masters is None else set()


def _unseen(grads: list[torch.Tensor], seen: set[int] | None) -> list[torch.Tensor]:
    """Those not yet in `seen`, which they join: a parameter of two optimizers is scaled once."""
    if seen is None:
        return grads
    fresh = [grad for grad in grads if id(grad) not in seen] if seen else grads
    seen.update(map(id, fresh))
    return fresh


def read_master_params(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    """The parameters that `optimizer` steps, with gradients as they are to be read: unscaled where they are masters'.

    Inside of a `scale_loss` block they are still to come.
    """
    enrolment = enrolment_of(optimizer)
    if enrolment is not None and enrolment.masters is not None:
        enrolment.masters.adopt(optimizer)
    if enrolment is not None and not enrolment.is_in_block:
        refresh_masters(optimizer, enrolment)
    if enrolment is not None and enrolment.places:
        # A norm over them is to be that over the models' parameters to the last bit, which depends on the order.
        places = enrolment.places
        return iter(sorted(parameters_of(optimizer), key=lambda p: places.get(id(p), len(places))))
    return parameters_of(optimizer)
