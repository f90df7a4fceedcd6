"""Owns the loss scale: its value, and how it moves as gradients overflow or do not."""

from __future__ import annotations

from typing import Any

import torch

from .policy import Scaling

GROWTH_FACTOR = 2.0
BACKOFF_FACTOR = 0.5
GROWTH_INTERVAL = 2000


class LossScaler:
    """One loss scale, kept on the device where it is used, so that reading and moving it costs no synchronisation."""

    __slots__ = ("_clean_steps", "_found_inf", "_initial", "_initial_steps", "_scale", "_waiting", "scaling")

    def __init__(self, scaling: Scaling) -> None:
        self.scaling = scaling
        self._initial = scaling.initial
        self._initial_steps = 0
        self._scale: torch.Tensor | None = None
        self._clean_steps: torch.Tensor | None = None
        self._found_inf: torch.Tensor | None = None
        # Whose next step decides about the scale.
        self._waiting: set[object] = set()

    def scale_on(self, device: torch.device) -> torch.Tensor:
        """The scale: float32, shape [], on `device`; made on the first device that asks."""
        if self._scale is None:
            self._scale = torch.full((), self._initial, dtype=torch.float32, device=device)
            self._clean_steps = torch.full((), self._initial_steps, dtype=torch.int32, device=device)
        return self._scale.to(device, non_blocking=True)

    @property
    def value(self) -> float:
        """The scale as a number; waits for the device."""
        return self._initial if self._scale is None else float(self._scale.item())

    def is_at_floor(self) -> bool:
        """Whether the scale is dynamic, and as low as it may get; waits for the device."""
        return self.scaling.dynamic and self.value <= self.scaling.lowest

    @property
    def used(self) -> bool:
        """Whether a loss has been scaled with it yet."""
        return self._scale is not None

    def expect_step(self, stepper: object) -> None:
        """The next step of `stepper`, or of another that was named so, decides about the scale."""
        self._waiting.add(stepper)

    def note(self, found_inf: torch.Tensor) -> None:
        """Take into account that gradients overflowed if `found_inf` (float32, shape []) is not 0."""
        if self._scale is None:
            return
        found_inf = found_inf.to(self._scale.device, non_blocking=True)
        self._found_inf = found_inf if self._found_inf is None else torch.maximum(self._found_inf, found_inf)

    @property
    def pending(self) -> torch.Tensor | None:
        """Whether gradients overflowed since the scale was last decided, as noted; None: nothing was noted."""
        return self._found_inf

    def awaits(self, stepper: object) -> bool:
        """Whether a step of `stepper` decides about the scale."""
        return stepper in self._waiting

    def decide(self) -> None:
        """Move the scale: down after an overflow, up after enough steps without."""
        found_inf, self._found_inf = self._found_inf, None
        self._waiting.clear()
        if not self.scaling.dynamic or self._scale is None or self._clean_steps is None or found_inf is None:
            return
        torch._amp_update_scale_(
            self._scale, self._clean_steps, found_inf, GROWTH_FACTOR, BACKOFF_FACTOR, GROWTH_INTERVAL
        )
        self._scale.clamp_(self.scaling.lowest, self.scaling.highest)

    def state_dict(self) -> dict[str, Any]:
        """What apex wrote into checkpoints: `loss_scale` and `unskipped`, the clean steps since it last moved."""
        steps = self._initial_steps if self._clean_steps is None else int(self._clean_steps.item())
        return {"loss_scale": self.value, "unskipped": steps}

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Go on from `state`; False if it cannot be gone on from.

        A static scale stays as configured. A dynamic one does not go on from 1, which is what runs without scaling
        write: at 1, float16 gradients would vanish for the thousands of steps that it takes to grow.
        """
        if not self.scaling.dynamic:
            return True
        loss_scale = float(state["loss_scale"])
        if loss_scale == 1.0:
            return False
        self._initial = min(self.scaling.highest, max(self.scaling.lowest, loss_scale))
        self._initial_steps = int(state["unskipped"])
        self._scale = self._clean_steps = None
        return True
