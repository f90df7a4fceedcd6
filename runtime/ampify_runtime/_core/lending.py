"""Owns the loan of a model's gradients and weights to an optimizer that steps its masters straight from them.

Then masters have no gradients of their own, unless somebody asks for them through `amp.master_params`: the step reads
the model's, still scaled and in their reduced type, and writes master and model at once. apex's FusedSGD does so with
`materialize_master_grads=False`; here every fused optimizer whose class has `takes_model_gradients` can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.optim import Optimizer

from .links import Link, mark_equal
from .masters import Masters


@dataclass(frozen=True, slots=True)
class Loan:
    """What a step may read and write in place of masters' gradients, by the ids of masters."""

    models: Mapping[int, tuple[torch.Tensor, Link]]
    # What the model's gradients are multiplied by; None: by nothing.
    scale: torch.Tensor | None

    def model_of(self, master: torch.Tensor) -> torch.Tensor | None:
        """The model parameter with the gradient that a step of `master` goes by; None if that is its own."""
        found = self.models.get(id(master))
        return None if found is None else found[0]

    def note_written(self, masters: Iterable[torch.Tensor]) -> None:
        """The step has written these masters and their model parameters alike."""
        for master in masters:
            if id(master) in self.models:
                mark_equal(*self.models[id(master)])


def borrows(optimizer: Optimizer, masters: Masters | None) -> bool:
    """Whether a step of `optimizer` takes the model's gradients as they are, since nobody has asked for the masters'.

    A subclass of a fused optimizer may do more in its step, and does not.
    """
    if masters is None or getattr(optimizer, "materialize_master_grads", True):
        return False
    if not vars(type(optimizer)).get("takes_model_gradients", False) or not masters.is_stale():
        return False
    return not any(
        (p.grad is not None and p.grad.is_sparse) or p.device != link.master.device for p, link in masters.pairs
    )


def lend(masters: Masters) -> Loan:
    """The model's parameters that have a gradient. What masters have of former ones goes: a step would take it."""
    for _, link in masters.pairs:
        link.master.grad = None
    models = {id(link.master): (parameter, link) for parameter, link in masters.pairs if parameter.grad is not None}
    return Loan(models, masters.scaled_by)


def overflow_in(grads: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """1 if a gradient is not finite, else 0; float32 of shape []; None without gradients. Nothing is written."""
    if not grads:
        return None
    # Scripts without a fused optimizer need none of the kernels' machinery.
    from ..kernels import operations

    by_device: dict[torch.device, list[torch.Tensor]] = {}
    for grad in grads:
        by_device.setdefault(grad.device, []).append(grad)
    flags = [operations.grad_stats(some).found_inf for some in by_device.values()]
    return torch.stack([flag.to(flags[0].device, non_blocking=True) for flag in flags]).amax()
