"""Chooses who carries out an operation: the CUDA kernels where they can be used, else plain torch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

_warned: set[str] = set()


@dataclass(frozen=True, slots=True)
class Usability:
    """Whether the CUDA kernels can be used on a device; if not, `reason` says why, in a phrase."""

    usable: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.usable


def usable(device: torch.device) -> Usability:
    """Whether the CUDA kernels can be used on `device`; asks once per device and process, and never raises."""
    if device.type != "cuda":
        return Usability(False, f"{device.type} tensors have no CUDA kernels")
    return Usability(False, "the kernels are not there yet")


def of(tensors: Sequence[Tensor]) -> Any:
    """What carries out an operation on `tensors`: a module with functions of the operations' names and signatures.

    Raises ValueError if `tensors` is empty where the operation has nobody to ask for a device.
    """
    return _reference()


def _reference() -> ModuleType:
    from . import reference

    return reference


def warn_of_fallback(reason: str) -> None:
    """Say, once in a process, that plain torch does the kernels' work on a CUDA device, and why."""
    if not _warned:
        _warned.add(reason)
        warnings.warn(f"ampify: fused CUDA kernels are not used: {reason}", stacklevel=3)
