"""Moves an optimizer's gradients between scaled and unscaled, exactly, and notes where they overflowed."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import torch
from torch.optim import Optimizer

from .enrolment import Enrolment, enrolled
from .gradients import gradients_of, multiply, multiply_and_check, parameters_of

Enrolled = tuple[Optimizer, Enrolment]


def of_this_thread() -> list[Enrolled]:
    """The optimizers that this thread trains with."""
    here = threading.get_ident()
    return [(optimizer, enrolment) for optimizer, enrolment in enrolled() if enrolment.thread == here]


def sharing_parameters_with(optimizer: Optimizer) -> list[Enrolled]:
    """Those of this thread that hold a parameter of `optimizer`, itself included: to be unscaled together, once."""
    mine = set(map(id, parameters_of(optimizer)))
    return [known for known in of_this_thread() if not mine.isdisjoint(map(id, parameters_of(known[0])))]


def scale_existing(optimizers: Iterable[Enrolled], scale: torch.Tensor) -> None:
    """Multiply the gradients that there are by `scale`, shape [], so that a scaled backward adds to its like."""
    seen: set[int] = set()
    for optimizer, enrolment in optimizers:
        by = enrolment.scaled_by
        factor = scale if by is None else scale / by.to(scale.device, non_blocking=True)
        multiply(_unseen(gradients_of(optimizer), seen), factor)
        enrolment.scaled_by = scale


def unscale(optimizers: Iterable[Enrolled]) -> None:
    """Divide the gradients by what they are scaled by, and note in `found_inf` whether all of them are finite."""
    seen: set[int] = set()
    for optimizer, enrolment in optimizers:
        by = enrolment.scaled_by
        if by is None:
            continue
        grads = gradients_of(optimizer)
        shared = [grad for grad in grads if id(grad) in seen]
        # In float64, as GradScaler does: the reciprocal of a scale that is no power of two is rounded once.
        found_inf = multiply_and_check(_unseen(grads, seen), by.double().reciprocal().float())
        also = multiply_and_check(shared, None)
        if found_inf is not None and also is not None:
            found_inf = torch.maximum(found_inf, also.to(found_inf.device))
        enrolment.found_inf = also if found_inf is None else found_inf
        enrolment.scaled_by = None


def _unseen(grads: list[torch.Tensor], seen: set[int]) -> list[torch.Tensor]:
    """Those not yet in `seen`, which they join: a parameter of two optimizers is scaled once."""
    fresh = [grad for grad in grads if id(grad) not in seen]
    seen.update(map(id, fresh))
    return fresh
