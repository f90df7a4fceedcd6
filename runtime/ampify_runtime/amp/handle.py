"""The handle that `amp.init` of the older interface returns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.optim import Optimizer

from .._core import ambient, process_casts
from .._core.enrolment import enrolment_of, require_optimizer
from .._core.scaled_loss import ScaledLoss
from .opt import OptimWrapper

__all__ = ["AmpHandle", "NoOpHandle"]


class AmpHandle:
    """Scales losses and wraps optimizers under what `amp.init` settled."""

    def __init__(self, enable_caching: bool = True, verbose: bool = False) -> None:
        self.has_cache = enable_caching
        self.verbose = verbose
        # Each wrapped optimizer has scales of its own.
        self._losses = 0

    def is_active(self) -> bool:
        """Whether this thread casts."""
        return ambient.casts_anywhere()

    def wrap_optimizer(self, optimizer: Optimizer, num_loss: int = 1) -> OptimWrapper:
        """`optimizer` with a `scale_loss(loss)` of its own, for `num_loss` losses a step."""
        require_optimizer(optimizer, "wrap_optimizer")
        first, self._losses = self._losses, self._losses + num_loss
        process_casts.join_optimizers([optimizer], self._losses)
        return OptimWrapper(optimizer, range(first, self._losses))

    def scale_loss(self, loss: Any, optimizer: Optimizer) -> AbstractContextManager[Any]:
        """As `amp.scale_loss`; an optimizer not seen before joins."""
        if enrolment_of(require_optimizer(optimizer, "scale_loss")) is None:
            process_casts.join_optimizers([optimizer])
        return ScaledLoss(loss, optimizer, 0, False, False)

    @contextmanager
    def _disable_casts(self) -> Iterator[None]:
        with ambient.banned():
            yield

    def _clear_cache(self) -> None:
        torch.clear_autocast_cache()

    def _deactivate(self) -> None:
        process_casts.stop_casting()


class NoOpHandle:
    """The handle of `amp.init(enabled=False)`, under which nothing changes."""

    has_cache = False
    verbose = False

    def is_active(self) -> bool:
        """False."""
        return False

    def wrap_optimizer(self, optimizer: Optimizer, num_loss: int = 1) -> OptimWrapper:
        """`optimizer` with a `scale_loss(loss)` that scales nothing."""
        return OptimWrapper(optimizer, range(0))

    @contextmanager
    def scale_loss(self, loss: Any, optimizer: Optimizer) -> Iterator[Any]:
        """The loss as it is."""
        yield loss

    @contextmanager
    def _disable_casts(self) -> Iterator[None]:
        yield

    def _clear_cache(self) -> None:
        """There is none."""

    def _deactivate(self) -> None:
        """There is nothing to stop."""
