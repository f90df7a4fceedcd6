"""Owns the loss scale: its value, and how it moves as gradients overflow or do not."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch

from .policy import Scaling

GROWTH_FACTOR = 2.0
BACKOFF_FACTOR = 0.5
GROWTH_INTERVAL = 2000


class LossScaler:
    """One loss scale, kept on the device where it is used, so that reading it costs no synchronisation.

    Where a step has to read whether gradients overflowed, its mover is Python, and the device learns of changes; where
    the step leaves that to its kernels, the device moves it.
    """

    __slots__ = ("_clean_steps", "_found_inf", "_is_on_device", "_scale", "_steps", "_value", "_waiting", "scaling")

    def __init__(self, scaling: Scaling) -> None:
        self.scaling = scaling
        # The scale, and the clean steps since it last moved, unless the device moves them.
        self._value = _rounded(scaling.initial)
        self._steps = 0
        self._is_on_device = False
        # The scale on the device. Only the device writes it in place, so that a captured step goes on from the last.
        self._scale: torch.Tensor | None = None
        self._clean_steps: torch.Tensor | None = None
        self._found_inf: torch.Tensor | None = None
        # Whose next step decides about the scale.
        self._waiting: set[object] = set()

    def scale_on(self, device: torch.device) -> torch.Tensor:
        """The scale: float32, shape [], on `device`; made on the first device that asks."""
        if self._scale is None:
            self._scale = torch.full((), self._value, dtype=torch.float32, device=device)
        return self._scale.to(device, non_blocking=True)

    def scale_to_keep(self, device: torch.device) -> torch.Tensor:
        """As `scale_on`, and the same for ever: what a block began with is what its gradients are divided by."""
        scale = self.scale_on(device)
        return scale.clone() if self._is_on_device else scale

    @property
    def value(self) -> float:
        """The scale as a number; may wait for the device."""
        return float(self._scale.item()) if self._is_on_device and self._scale is not None else self._value

    @property
    def clean_steps(self) -> int:
        """The steps without overflow since the scale last moved; may wait for the device."""
        if self._is_on_device and self._clean_steps is not None:
            return int(self._clean_steps.item())
        return self._steps

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

    def decide(self, overflowed: bool) -> None:
        """Move the scale: down if gradients `overflowed`, up after enough steps without."""
        if not self._has_news():
            return
        value, steps = self._value, self._steps = self.value, self.clean_steps
        self._is_on_device = False
        if overflowed:
            value, steps = value * BACKOFF_FACTOR, 0
        else:
            steps += 1
            if steps == GROWTH_INTERVAL:
                value, steps = value * GROWTH_FACTOR, 0
        self._move(value, steps)

    def decide_on_device(self) -> None:
        """As `decide`, where only the device knows what was noted; waits for nothing."""
        found_inf = self._found_inf
        if not self._has_news() or self._scale is None or found_inf is None:
            return
        if not self._is_on_device or self._clean_steps is None:
            # A block may be keeping the scale of before.
            self._scale = self._scale.clone()
            self._clean_steps = torch.full((), self._steps, dtype=torch.int32, device=self._scale.device)
            self._is_on_device = True
        torch._amp_update_scale_(
            self._scale, self._clean_steps, found_inf, GROWTH_FACTOR, BACKOFF_FACTOR, GROWTH_INTERVAL
        )
        self._scale.clamp_(self.scaling.lowest, self.scaling.highest)

    def _has_news(self) -> bool:
        """Whether there is something to decide upon; clears what was noted."""
        found_inf, self._found_inf = self._found_inf, None
        self._waiting.clear()
        return self.scaling.dynamic and found_inf is not None

    def _move(self, value: float, steps: int) -> None:
        moved = _rounded(min(self.scaling.highest, max(self.scaling.lowest, value)))
        # As torch has it: a scale does not grow to infinity.
        if moved != self._value and math.isfinite(moved):
            self._value = moved
            if self._scale is not None:
                self._scale = torch.full((), moved, dtype=torch.float32, device=self._scale.device)
        self._steps = steps

    def state_dict(self) -> dict[str, Any]:
        """What apex wrote into checkpoints: `loss_scale` and `unskipped`, the clean steps since it last moved."""
        return {"loss_scale": self.value, "unskipped": self.clean_steps}

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
        self._value = _rounded(min(self.scaling.highest, max(self.scaling.lowest, loss_scale)))
        self._steps = int(state["unskipped"])
        self._is_on_device = False
        self._scale = self._clean_steps = None
        return True


def _rounded(value: float) -> float:
    """As float32 has it."""
    return ctypes.c_float(value).value
