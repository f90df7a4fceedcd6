"""Owns the loss scale of an `FP16_Optimizer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class StepScaler:
    """A loss scale that stays, or, for `"dynamic"`, moves: down at an overflow, up after `scale_window` steps without.

    Raises ValueError for a scale that is neither `"dynamic"` nor a positive number.
    """

    def __init__(
        self,
        loss_scale: float | str,
        init_scale: float = 2.0**16,
        scale_factor: float = 2.0,
        scale_window: int = 2000,
        min_loss_scale: float | None = None,
        max_loss_scale: float = 2.0**24,
    ) -> None:
        self.dynamic = loss_scale == "dynamic"
        self._loss_scale = min(max_loss_scale, init_scale) if self.dynamic else float(loss_scale)
        if not 0.0 < self._loss_scale < float("inf"):
            raise ValueError(f"FP16_Optimizer: the loss scale is {self._loss_scale}; pass a positive number")
        self._factor = scale_factor
        self._window = scale_window
        # Without a floor the scale would fall to 0 in time.
        self._lowest = min_loss_scale or 2.0**-24
        self._highest = max_loss_scale
        self._unskipped = 0

    def loss_scale(self) -> float:
        """What the loss is multiplied by."""
        return self._loss_scale

    def update(self, overflow: bool) -> None:
        """Move the scale after a backward."""
        if not self.dynamic:
            return
        if overflow:
            self._loss_scale = max(self._loss_scale / self._factor, self._lowest)
            self._unskipped = 0
            return
        self._unskipped += 1
        if self._unskipped == self._window:
            self._loss_scale = min(self._loss_scale * self._factor, self._highest)
            self._unskipped = 0

    def state_dict(self) -> dict[str, Any]:
        """The scale and how many steps it has been good for."""
        return {"loss_scale": self._loss_scale, "unskipped": self._unskipped}

    def load(self, state: Any) -> None:
        """Go on from a state of ours, or from the scaler object that apex put into its checkpoints."""
        if not isinstance(state, Mapping):
            state = {"loss_scale": state._loss_scale, "unskipped": state._unskipped}
        self._loss_scale = float(state["loss_scale"])
        self._unskipped = int(state["unskipped"])
