"""Owns the seeds and the deterministic settings of a watched run."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .orders import Orders


def seed_python(orders: Orders) -> None:
    """Seeds the standard library's generator; from now on, seeds that the script sets are shifted."""
    random.seed = _ours(random.seed, orders)
    random.seed(orders.seed)


def seed_numpy(numpy: ModuleType, orders: Orders) -> None:
    """Seeds numpy's global generator, and those made later without a seed."""
    module = numpy.random
    make = module.default_rng
    module.default_rng = lambda seed=None: make(orders.seed + orders.shift if seed is None else seed)
    module.seed = _ours(module.seed, orders)
    module.seed(orders.seed)


def seed_torch(torch: Any, orders: Orders) -> None:
    """Seeds torch, from which DataLoader workers take their seeds, and has it choose deterministic algorithms.

    An operation that has no deterministic algorithm warns and goes on.
    """
    torch.manual_seed = torch.random.manual_seed = _ours(torch.manual_seed, orders)
    torch.manual_seed(orders.seed)
    torch.seed = torch.random.seed = lambda: torch.manual_seed(orders.seed).initial_seed()
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling fresh memory is for finding bugs, and costs time that a step is judged by.
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def _ours(seed: Callable[..., Any], orders: Orders) -> Callable[..., Any]:
    """`seed`, shifted, and with a seed of ours where the script would have the system choose one."""

    def set_seed(value: Any = None, *args: Any, **kwargs: Any) -> Any:
        value = orders.seed if value is None else value
        # numpy takes seeds below 2**32 alone.
        moved = (value + orders.shift) % 2**32 if orders.shift and isinstance(value, int) else value
        return seed(moved, *args, **kwargs)

    return set_seed
