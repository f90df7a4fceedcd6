"""Casts never compute with weights of before, whichever way those changed, in whichever thread."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch.nn import functional as F

from .casting import by_hand, here, in_thread, initialized
from .training import X, assert_same

pytestmark = pytest.mark.usefixtures("bfloat16")


@pytest.mark.parametrize("where", [here, in_thread])
class TestStaleWeights:
    """The weights that count are those at the time of the forward."""

    def test_after_load_state_dict(self, where: Any) -> None:
        model, _ = initialized()
        where(lambda: model(X))
        model.load_state_dict({name: tensor * -3 for name, tensor in model.state_dict().items()})
        assert_same([where(lambda: model(X)).detach()], [by_hand(model, X)])

    def test_after_an_ema_swap(self, where: Any) -> None:
        model, optimizer = initialized()
        averages = [p.detach().clone() * 2 for p in model.parameters()]
        for _ in range(2):
            loss = where(lambda: model(X).square().mean())
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
            for p, average in zip(model.parameters(), averages, strict=True):
                p.data, average.data = average.data, p.data
            assert_same([where(lambda: model(X)).detach()], [by_hand(model, X)])

    def test_gradients_after_an_evaluation_without_gradients(self, where: Any) -> None:
        model, optimizer = initialized()

        def evaluate_and_train() -> torch.Tensor:
            with torch.no_grad():
                model(X)
            return model(X).square().mean()

        with amp.scale_loss(where(evaluate_and_train), optimizer) as scaled_loss:
            scaled_loss.backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())

    def test_of_code_outside_of_the_models(self, where: Any) -> None:
        model, _ = initialized()
        weight = model[0].weight

        def products() -> tuple[torch.Tensor, torch.Tensor]:
            model(X)
            first = F.linear(X, weight)
            with torch.no_grad():
                weight.neg_()
            return first, F.linear(X, weight)

        first, second = where(products)
        assert first.dtype is second.dtype is torch.bfloat16
        assert_same([second], [-first])
