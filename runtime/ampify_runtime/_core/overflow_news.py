"""Owns what is said of steps whose gradients overflowed, also of those that were skipped with nobody waiting for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .notices import report, warn, warn_once
from .policy import Policy, Scaling
from .scaler import LossScaler

_MANY_SKIPS = 25


@dataclass(slots=True)
class Skips:
    """What is known of an optimizer's skipped steps."""

    policy: Policy
    name: str
    in_a_row: int = 0
    # Steps that only the device knows about yet: what it is to send, when it has sent it, and of whose scales.
    unread: deque[tuple[torch.Tensor, Any, list[Scaling]]] = field(default_factory=deque)

    def tell(self, overflowed: bool, scalers: Sequence[LossScaler]) -> None:
        """Say what there is to say of a step of which it is known whether it `overflowed`; the scales have moved."""
        if overflowed:
            self._tell_skipped([(scaler.value, scaler.scaling) for scaler in scalers])
        else:
            self.in_a_row = 0

    def tell_later(self, found_inf: torch.Tensor, scalers: Sequence[LossScaler]) -> None:
        """As `tell`, of a step that its kernels may skip: once the device has sent what it found, at a later step."""
        self._tell_of_read()
        device = found_inf.device
        if device.type not in ("cpu", "cuda") or (device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
            return
        sent = torch.stack([found_inf, *(scaler.scale_on(device) for scaler in scalers)]).to("cpu", non_blocking=True)
        # Recorded on the device's current stream, after the copy.
        arrival = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None
        self.unread.append((sent, arrival, [scaler.scaling for scaler in scalers]))

    def _tell_of_read(self) -> None:
        while self.unread and (self.unread[0][1] is None or self.unread[0][1].query()):
            sent, _, scalings = self.unread.popleft()
            found_inf, *scales = sent.tolist()
            if found_inf:
                self._tell_skipped(list(zip(scales, scalings, strict=True)))
            else:
                self.in_a_row = 0

    def _tell_skipped(self, scales: list[tuple[float, Scaling]]) -> None:
        self.in_a_row += 1
        if self.policy.verbosity > 0:
            text = ", ".join(f"{scale:g}" for scale, _ in scales) or "unchanged"
            report(f"gradient overflow: this step of {self.name} is skipped; loss scale: {text}")
        lowest = [scaling.lowest for scale, scaling in scales if scaling.dynamic and scale <= scaling.lowest]
        if lowest:
            warn_once(
                f"floor, {self.name}",
                f"the loss scale of {self.name} is at its minimum, {lowest[0]:g}, and gradients still overflow: the "
                "cause is not the scale. Look for inf or NaN in the data, the loss or the weights",
            )
        if self.in_a_row == _MANY_SKIPS:
            warn(
                f"{_MANY_SKIPS} steps of {self.name} in a row were skipped, since their gradients are not finite "
                "whatever the loss scale: nothing is learned. Look for inf or NaN in the data, the loss or the weights"
            )
