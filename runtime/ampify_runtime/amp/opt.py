"""An optimizer as `handle.wrap_optimizer` of the older interface returns it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.optim import Optimizer

from .._core.scaled_loss import ScaledLoss


class OptimWrapper:
    """An optimizer with a `scale_loss` of its own: each of its losses between two steps has its own scale.

    Everything else is the optimizer's. `losses` are the ids of its scales; none if the handle does nothing.
    """

    def __init__(self, optimizer: Optimizer, losses: range) -> None:
        self._optimizer = optimizer
        self._losses = losses
        self._scaled = 0

    @contextmanager
    def scale_loss(self, loss: Any) -> Iterator[Any]:
        """As `amp.scale_loss`, for the next of the losses. Raises RuntimeError if there are more of them than told."""
        if not self._losses:
            yield loss
            return
        if self._scaled >= len(self._losses):
            raise RuntimeError(
                f"scale_loss: more than num_loss={len(self._losses)} losses since the last step; tell "
                "handle.wrap_optimizer(optimizer, num_loss) how many there are, and step after them"
            )
        with ScaledLoss(loss, self._optimizer, self._losses[self._scaled], False, False) as scaled:
            yield scaled
        self._scaled += 1

    def step(self, closure: Any = None) -> Any:
        """The optimizer's step, skipped if gradients overflowed."""
        self._scaled = 0
        return self._optimizer.step() if closure is None else self._optimizer.step(closure)

    def __getattr__(self, name: str) -> Any:
        # Before there is an optimizer, in unpickling, there is nothing to ask.
        if name.startswith("__") or "_optimizer" not in vars(self):
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    def __repr__(self) -> str:
        return repr(self._optimizer)
