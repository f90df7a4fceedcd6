"""Chooses who carries out an operation: the CUDA kernels where they can be used, else plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import cuda, reference
from .engines import engine_for
from .fallback import warn_of_fallback


@dataclass(frozen=True, slots=True)
class Usability:
    """Whether the CUDA kernels can be used on a device; if not, `reason` says why, in a phrase."""

    usable: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.usable


def usable(device: torch.device) -> Usability:
    """Whether the CUDA kernels can be used on `device`; finds out once per device and process, and never raises."""
    if device == torch.device("cuda") and torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())
    engine = engine_for(device)
    return Usability(False, engine) if isinstance(engine, str) else Usability(True)


def of(tensors: Sequence[Tensor]) -> Any:
    """What carries out an operation on `tensors`: a module with functions of the operations' names and signatures."""
    if not tensors:
        return reference
    device = tensors[0].device
    engine = engine_for(device)
    if not isinstance(engine, str):
        return cuda
    if device.type == "cuda":
        warn_of_fallback(engine)
    return reference
