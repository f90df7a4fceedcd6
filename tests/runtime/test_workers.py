"""Processes that come of a process that casts: data workers do not cast, trainers do."""

from __future__ import annotations

import os

import pytest
import torch
from ampify_runtime import amp
from torch import nn
from torch.utils.data import DataLoader, Dataset

from .casting import initialized, product_dtype
from .training import X, assert_same, make_mlp

pytestmark = pytest.mark.usefixtures("bfloat16")


class Products(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Data that is computed where it is asked for: by a matrix product, and by a model."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            return torch.mm(torch.ones(2, 2), torch.full((2, 2), 1 / 3)), self.model(X)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_do_not_cast(method: str) -> None:
    if method == "fork" and not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    model, _ = initialized()
    model(X)
    with amp.disable_casts():
        plain = Products(make_mlp())[0]
    loader = DataLoader(Products(model), batch_size=None, num_workers=1, multiprocessing_context=method)
    for item in loader:
        assert_same(item, plain)
    assert product_dtype() is torch.bfloat16


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_that_trains_casts_again() -> None:
    model, _ = initialized()
    model(X)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b"wrong"
        try:
            before = product_dtype()
            if (before, model(X).dtype, product_dtype()) == (torch.float32, torch.bfloat16, torch.bfloat16):
                answer = b"right"
        finally:
            os.write(writes, answer)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reads, 10) == b"right"
