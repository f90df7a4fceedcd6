"""Owns what a trainer is: an optimizer, or an object that holds one or several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.optim import Optimizer

_HOLDERS = ("optimizer", "_optimizer", "optimizers", "_optimizers", "optim")


def optimizers_in(trainer: Any) -> list[Optimizer]:
    """The optimizers that `trainer` is, or holds; none if it has nothing to do with optimizers."""
    if isinstance(trainer, Optimizer):
        return [trainer]
    held = (getattr(trainer, name, None) for name in _HOLDERS)
    return next((found for found in map(_listed, held) if found), [])


def _listed(value: Any) -> list[Optimizer]:
    if isinstance(value, Optimizer):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    items = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else []
    return items if all(isinstance(item, Optimizer) for item in items) else []
