"""What happens around an optimizer's step: skipped for real on overflow, no casts inside, nothing of ours left behind."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn
from torch.optim.lr_scheduler import StepLR

from .training import X, assert_same, backward, make_mlp, plain_step, weights_of

SCALED: dict[str, Any] = {"opt_level": "O0", "loss_scale": "dynamic", "verbosity": 0}


class Counting(torch.optim.SGD):
    """Counts its steps in every place where people keep such a count."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, lr=0.1)
        self.count = 0

    def step(self, closure: Any = None) -> Any:
        self.count += 1
        self.state["global"]["step"] = self.state["global"].get("step", 0) + 1
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
        return super().step(closure)

    def counts(self) -> tuple[int, int, int]:
        return self.count, self.state["global"].get("step", 0), self.param_groups[0].get("step", 0)


class Decaying(torch.optim.SGD):
    """Does work of its own before a fused kernel does the rest."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, lr=0.1, fused=True)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.mul_(0.9)
        return super().step(closure)


class Wrapping(torch.optim.Optimizer):
    """Steps an optimizer inside of it, as Lookahead does."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        super().__init__(inner.param_groups, {})
        self.param_groups = inner.param_groups

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "Adam, fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "SGD, fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "AdamW, foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.9),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "Adadelta": torch.optim.Adadelta,
    "Rprop": torch.optim.Rprop,
    "counting": Counting,
    "decaying": Decaying,
    "wrapping": lambda p: Wrapping(torch.optim.Adam(p, lr=0.1)),
}


@pytest.fixture(params=sorted(OPTIMIZERS))
def make_optimizer(request: pytest.FixtureRequest) -> Any:
    return OPTIMIZERS[request.param]


def flat(state: Any) -> list[torch.Tensor]:
    if isinstance(state, dict):
        return [leaf for value in state.values() for leaf in flat(value)]
    if isinstance(state, (list, tuple)):
        return [leaf for value in state for leaf in flat(value)]
    return [torch.as_tensor(state).detach().clone()] if isinstance(state, (torch.Tensor, int, float)) else []


def test_a_skipped_step_leaves_no_trace(make_optimizer: Any) -> None:
    """Weights and the whole optimizer state: as if the step had not been called."""
    model = make_mlp()
    optimizer = make_optimizer(model.parameters())
    amp.initialize(model, optimizer, **SCALED)
    backward(model, optimizer)
    optimizer.step()
    before = weights_of(model), flat(optimizer.state_dict())
    optimizer.zero_grad()
    backward(model, optimizer, overflow=True)
    grads = [p.grad for p in model.parameters()]
    optimizer.step()
    assert_same(weights_of(model), before[0])
    assert_same(flat(optimizer.state_dict()), before[1])
    assert all(p.grad is grad for p, grad in zip(model.parameters(), grads, strict=True))
    optimizer.zero_grad()
    backward(model, optimizer)
    optimizer.step()
    assert not torch.equal(weights_of(model)[0], before[0][0])


def test_steps_follow_the_plain_optimizer(make_optimizer: Any) -> None:
    def train(scaled: bool) -> list[torch.Tensor]:
        model = make_mlp()
        optimizer = make_optimizer(model.parameters())
        if scaled:
            amp.initialize(model, optimizer, **SCALED)
        for _ in range(3):
            optimizer.zero_grad()
            if scaled:
                backward(model, optimizer)
                optimizer.step()
            else:
                plain_step(model, optimizer)
        return weights_of(model)

    assert_same(train(scaled=True), train(scaled=False))


def test_a_skip_before_any_step(make_optimizer: Any) -> None:
    model = make_mlp()
    optimizer = make_optimizer(model.parameters())
    amp.initialize(model, optimizer, **SCALED)
    before = weights_of(model)
    backward(model, optimizer, overflow=True)
    optimizer.step()
    assert_same(weights_of(model), before)


def test_counters_do_not_move_in_a_skipped_step() -> None:
    model = make_mlp()
    optimizer = Counting(model.parameters())
    amp.initialize(model, optimizer, **SCALED)
    for overflow in (False, True, True, False):
        optimizer.zero_grad()
        backward(model, optimizer, overflow)
        optimizer.step()
    assert optimizer.counts() == (2, 2, 2)


class TestNothingIsLeftBehind:
    @pytest.fixture
    def trained(self) -> tuple[nn.Module, torch.optim.Optimizer]:
        model = make_mlp()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        amp.initialize(model, optimizer, **SCALED)
        backward(model, optimizer)
        optimizer.step()
        return model, optimizer

    def test_in_the_state_dict(self, trained: Any) -> None:
        plain_model = make_mlp()
        plain = torch.optim.Adam(plain_model.parameters(), lr=0.1)
        plain_step(plain_model, plain)
        ours = trained[1].state_dict()
        assert ours["param_groups"] == plain.state_dict()["param_groups"]
        assert_same(flat(ours), flat(plain.state_dict()))

    def test_in_a_pickle(self, trained: Any) -> None:
        pickled = pickle.dumps(trained[1])
        assert b"ampify" not in pickled
        assert_same(flat(pickle.loads(pickled).state_dict()), flat(trained[1].state_dict()))

    def test_in_a_deep_copy_which_steps_by_itself(self, trained: Any) -> None:
        model, optimizer = copy.deepcopy(trained)
        model(X).square().mean().backward()
        before = weights_of(model)
        optimizer.step()
        assert not torch.equal(weights_of(model)[0], before[0])

    def test_in_the_attributes_of_a_fused_optimizer(self) -> None:
        model = make_mlp()
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        names = set(vars(optimizer))
        amp.initialize(model, optimizer, **SCALED)
        backward(model, optimizer)
        optimizer.step()
        assert set(vars(optimizer)) == names

    def test_step_is_the_class_s_own(self, trained: Any) -> None:
        assert "step" not in vars(trained[1])


def test_a_scheduler_made_later_does_not_warn() -> None:
    model = make_mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, **SCALED)
    scheduler = StepLR(optimizer, 1, gamma=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for overflow in (True, False):
            optimizer.zero_grad()
            backward(model, optimizer, overflow)
            optimizer.step()
            scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.025


def test_groups_added_later_are_scaled_and_skipped_too() -> None:
    model, late = make_mlp(), nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, **SCALED)
    optimizer.add_param_group({"params": late.parameters()})
    before = weights_of(late)
    loss = late(X).mean()
    (expected,) = torch.autograd.grad(loss, [late.weight], retain_graph=True)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    assert late.weight.grad is not None
    assert_same([late.weight.grad], [expected])
    late.weight.grad = None
    backward(late, optimizer, overflow=True)
    optimizer.step()
    assert_same(weights_of(late), before)


class Failing(torch.optim.SGD):
    fails = True

    def step(self, closure: Any = None) -> Any:
        if self.fails:
            raise ArithmeticError
        return super().step(closure)


@pytest.mark.parametrize("overflow", [True, False])
def test_a_step_that_raises_is_tidied_up_after(overflow: bool, float16: torch.dtype) -> None:
    model = make_mlp()
    optimizer = Failing(model.parameters(), lr=1e-4)
    amp.initialize(model, optimizer, verbosity=0)
    backward(model, optimizer, overflow)
    grads = [p.grad for p in model.parameters()]
    with pytest.raises(ArithmeticError):
        optimizer.step()
    assert model(X).dtype is float16
    assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is float16
    assert all(p.grad is grad for p, grad in zip(model.parameters(), grads, strict=True))
    optimizer.fails = False
    optimizer.zero_grad()
    amp.load_state_dict({"loss_scaler0": {"loss_scale": 16.0, "unskipped": 0}})
    before = weights_of(model)
    backward(model, optimizer)
    optimizer.step()
    assert not torch.equal(weights_of(model)[0], before[0])


def test_a_block_that_raises_leaves_gradients_unscaled() -> None:
    model = make_mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, **SCALED)
    loss = model(X).square().mean()
    expected = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)

    def fail_after_backward() -> None:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail_after_backward()
    assert_same([p.grad for p in model.parameters() if p.grad is not None], expected)


def test_steps_inside_of_the_block_are_right_too() -> None:
    model, plain_model = make_mlp(), make_mlp()
    first, second = (torch.optim.SGD(model[index].parameters(), lr=0.1) for index in (0, 2))
    amp.initialize(model, [first, second], **SCALED)
    plain_step(plain_model, torch.optim.SGD(plain_model.parameters(), lr=0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with amp.scale_loss(model(X).square().mean(), [first, second]) as scaled_loss:
            scaled_loss.backward()
            first.step()
            second.step()
    assert_same(weights_of(model), weights_of(plain_model))
    with amp.scale_loss(model(X).sum() * float("inf"), [first, second]) as scaled_loss:
        scaled_loss.backward()
        first.step()
        second.step()
    assert_same(weights_of(model), weights_of(plain_model))
    assert amp.loss_scale() == 32768.0
    first.zero_grad()
    second.zero_grad()
    with amp.scale_loss(model(X).sum(), [first, second]) as scaled_loss:
        scaled_loss.backward()
    first.step()
    assert amp.loss_scale() == 32768.0


def test_a_step_inside_of_the_block_leaves_other_optimizers_scaled() -> None:
    model, plain_model = make_mlp(), make_mlp()
    first, second = (torch.optim.SGD(model[index].parameters(), lr=0.1) for index in (0, 2))
    amp.initialize(model, [first, second], **SCALED)
    (2 * plain_model(X).square().mean()).backward()
    torch.optim.SGD(plain_model[2].parameters(), lr=0.1).step()
    with amp.scale_loss(model(X).square().mean(), [first, second]) as scaled_loss:
        scaled_loss.backward(retain_graph=True)
        first.step()
        scaled_loss.backward()
        first.zero_grad()
    second.step()
    assert_same(weights_of(model[2]), weights_of(plain_model[2]))


def test_delayed_overflows_of_several_losses_lower_their_scales() -> None:
    model = make_mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, **SCALED, num_losses=3)
    for loss_id in (0, 1):
        with amp.scale_loss(model(X).sum() * float("inf"), optimizer, loss_id, delay_unscale=True) as scaled_loss:
            scaled_loss.backward()
    before = weights_of(model)
    optimizer.step()
    assert_same(weights_of(model), before)
    assert [amp.loss_scale(loss_id) for loss_id in range(3)] == [32768.0, 32768.0, 65536.0]
