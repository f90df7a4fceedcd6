"""What the tests of casts share: an initialized model, a thread to work in, and the same by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from ampify_runtime import amp
from torch import nn

from .training import make_mlp


def initialized(model: nn.Module | None = None, **keywords: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = make_mlp() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, **keywords)
    return model, optimizer


def in_thread(work: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def here(work: Callable[[], Any]) -> Any:
    return work()


def product_dtype() -> torch.dtype:
    """What a matrix product outside of all models computes in."""
    return torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype


def by_hand(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The output of a copy that no hook touches, in one region."""
    twin = make_mlp()
    twin.load_state_dict(model.state_dict())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return twin(x).detach()
