"""Initialized again, in parts, or after trouble: models and optimizers still follow training without ampify."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn

from .training import X, backward, make_mlp, plain_step

CASTING = ["O2", "O5"]
STEPS = 4


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def in_full(model: nn.Module | None = None) -> nn.Module:
    model = make_mlp() if model is None else model
    optimizer = sgd(model)
    for _ in range(STEPS):
        optimizer.zero_grad()
        plain_step(model, optimizer)
    return model


def assert_close(model: nn.Module, other: nn.Module) -> None:
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name], rtol=0, atol=5e-3)


def train(model: nn.Module, *optimizers: Any) -> None:
    for _ in range(STEPS):
        for optimizer in optimizers:
            optimizer.zero_grad()
        with amp.scale_loss(model(X).float().square().mean(), list(optimizers)) as scaled_loss:
            scaled_loss.backward()
        for optimizer in optimizers:
            optimizer.step()


@pytest.mark.parametrize("level", CASTING)
class TestAgainWhereWeightsAreCast:
    def test_with_another_scale(self, level: str, float16: torch.dtype) -> None:
        model = make_mlp()
        optimizer = sgd(model)
        amp.initialize(model, optimizer, opt_level=level, verbosity=0)
        amp.initialize(model, optimizer, opt_level=level, verbosity=0, loss_scale=128.0)
        train(model, optimizer)
        assert_close(model, in_full())

    def test_with_an_optimizer_more(self, level: str, float16: torch.dtype) -> None:
        model, other = make_mlp(), nn.Linear(2, 2)
        optimizer = sgd(model)
        amp.initialize(model, optimizer, opt_level=level, verbosity=0)
        amp.initialize([model, other], [optimizer, sgd(other)], opt_level=level, verbosity=0)
        train(model, optimizer)
        assert_close(model, in_full())

    def test_one_of_two_optimizers_of_the_same_weights(self, level: str, float16: torch.dtype) -> None:
        model = make_mlp()
        one, other = sgd(model), sgd(model)
        amp.initialize(model, [one, other], opt_level=level, verbosity=0)
        amp.initialize(model, one, opt_level=level, verbosity=0, loss_scale=128.0)
        masters = [p for group in one.param_groups for p in group["params"]]
        assert all(p is q for p, q in zip(masters, other.param_groups[0]["params"], strict=True))
        train(model, one)
        assert_close(model, in_full())


@pytest.mark.parametrize("level", ["O2", "O3", "O5"])
def test_a_model_inside_of_one_initialized_after_it_is_called_by_itself(level: str, float16: torch.dtype) -> None:
    inner = make_mlp()
    outer = nn.Sequential(inner, nn.Linear(3, 3))
    optimizer = sgd(outer)
    amp.initialize([inner, outer], optimizer, opt_level=level, verbosity=0)
    assert inner(X).dtype is torch.float32
    assert outer(X).dtype is torch.float32


@pytest.mark.parametrize("level", CASTING)
@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_zeroed_inside_of_the_block(level: str, set_to_none: bool, float16: torch.dtype) -> None:
    model = make_mlp()
    optimizer = sgd(model)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    for _ in range(STEPS):
        with amp.scale_loss(model(X).float().square().mean() / 2, optimizer) as scaled_loss:
            optimizer.zero_grad(set_to_none)
            scaled_loss.backward()
        with amp.scale_loss(model(X).float().square().mean() / 2, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    assert_close(model, in_full())


@pytest.mark.parametrize("level", CASTING)
def test_masters_of_float64_weights_are_not_rounded(level: str, float16: torch.dtype) -> None:
    model = make_mlp().double()
    before = [p.detach().float() for p in model.parameters()]
    optimizer = sgd(model)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    for master, weight in zip(amp.master_params(optimizer), before, strict=True):
        assert torch.equal(master.detach(), weight)


def test_a_second_step_in_one_block_is_refused(float16: torch.dtype) -> None:
    model = make_mlp()
    optimizer = sgd(model)
    amp.initialize(model, optimizer, verbosity=0)
    with amp.scale_loss(model(X).float().square().mean(), optimizer) as scaled_loss:
        scaled_loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        scaled_loss.backward()
        with pytest.raises(RuntimeError, match="second step in one"):
            optimizer.step()
    optimizer.zero_grad()
    backward(model, optimizer)
    optimizer.step()


def test_casts_are_on_after_a_step_that_raised(float16: torch.dtype) -> None:
    class Failing(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            raise OSError("no space left")

    model = make_mlp()
    optimizer = Failing(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
    backward(model, optimizer)
    with pytest.raises(OSError, match="no space left"):
        optimizer.step()
    another = make_mlp()
    amp.initialize(another, sgd(another), opt_level="O4", verbosity=0)
    another(X)
    assert (X @ X.T).dtype is torch.bfloat16
