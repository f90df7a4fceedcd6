"""Owns what a training step keeps on the device: what is known of its gradients, and what its updates go by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# The order of `StepState.values`; csrc/state.cuh has the same one.
_FIELDS = (
    "skip",
    "grad_factor",
    "inv_scale",
    "clip",
    "grad_norm",
    "lr",
    "bias_correction1",
    "bias_correction2",
    "step",
)
_SLOTS = 16


@dataclass(frozen=True, slots=True)
class StepState:
    """What the updates of one parameter group go by in one step; `step_prep` writes it, the updates read it.

    `values` is float32, shape [16], contiguous, on the device of the parameters. Its fields, each a view of shape []:

    - `skip`: 0, or 1 where gradients overflowed: then an update leaves every tensor as it is, bit for bit;
    - `grad_factor`: `inv_scale * clip`, by which an update multiplies each gradient it reads;
    - `inv_scale`: 1 / loss scale;
    - `clip`: 1, or what brings the global norm down to the maximum;
    - `grad_norm`: the global 2-norm of the unscaled gradients, before the clip; 0 where nothing was asked of it;
    - `lr`: the learning rate;
    - `bias_correction1`, `bias_correction2`: `1 - beta1**step` and `1 - beta2**step`, or 1;
    - `step`: the number of the step, 1 for the first (a float32: exact up to 2**24).
    """

    values: Tensor

    @classmethod
    def on(cls, device: torch.device) -> StepState:
        """One that nothing was written to yet: no skip, factors of 1, learning rate 0."""
        values = torch.ones(_SLOTS, dtype=torch.float32, device=device)
        for name in ("skip", "grad_norm", "lr", "step"):
            values[_FIELDS.index(name)] = 0.0
        return cls(values)

    def _field(self, name: str) -> Tensor:
        return self.values[_FIELDS.index(name)]

    @property
    def skip(self) -> Tensor:
        """Whether the updates are to leave everything as it is; float32, shape []."""
        return self._field("skip")

    @property
    def grad_factor(self) -> Tensor:
        """What an update multiplies gradients by; float32, shape []."""
        return self._field("grad_factor")

    @property
    def inv_scale(self) -> Tensor:
        """1 / loss scale; float32, shape []."""
        return self._field("inv_scale")

    @property
    def clip(self) -> Tensor:
        """The factor of the clip, at most 1; float32, shape []."""
        return self._field("clip")

    @property
    def grad_norm(self) -> Tensor:
        """The global norm of the unscaled gradients; float32, shape []."""
        return self._field("grad_norm")

    @property
    def lr(self) -> Tensor:
        """The learning rate; float32, shape []."""
        return self._field("lr")

    @property
    def bias_correction1(self) -> Tensor:
        """`1 - beta1**step`, or 1; float32, shape []."""
        return self._field("bias_correction1")

    @property
    def bias_correction2(self) -> Tensor:
        """`1 - beta2**step`, or 1; float32, shape []."""
        return self._field("bias_correction2")

    @property
    def step(self) -> Tensor:
        """The number of this step; float32, shape []."""
        return self._field("step")


@dataclass(frozen=True, slots=True)
class GradStats:
    """What one read of the gradients, still scaled, tells.

    `sums`: float32, shape [number of gradients], the sum of squares of each. `found_inf`: float32, shape [], 0, or 1 if
    some element is infinite or not a number. The two are kept apart: a sum of squares can overflow by itself.
    """

    sums: Tensor
    found_inf: Tensor

    def of(self, tensors: slice) -> GradStats:
        """The sums of some of the gradients; whether any of all overflowed."""
        return GradStats(self.sums[tensors], self.found_inf)

    @classmethod
    def merged(cls, stats: Sequence[GradStats], device: torch.device) -> GradStats:
        """Those of several devices as one, on `device`; at least one is asked for."""
        sums = torch.cat([each.sums.to(device, non_blocking=True) for each in stats])
        found = torch.stack([each.found_inf.to(device, non_blocking=True) for each in stats]).amax()
        return cls(sums, found)


@dataclass(frozen=True, slots=True)
class Norms:
    """2-norms in float32: `total` of all tensors together, shape []; `each` of one, shape [number of tensors]."""

    total: Tensor
    each: Tensor


@dataclass(frozen=True, slots=True)
class ScaleUpdate:
    """How `step_prep` moves the loss scale once it has decided: as `torch.amp.GradScaler.update`, then within bounds.

    `tracker` is int32, shape [], on the device: the clean steps since the scale last moved.
    """

    tracker: Tensor
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    lowest: float = 0.0
    highest: float = float("inf")
