"""Fused optimizers under torch's GradScaler and under amp: exact about overflow, and right about the scale."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from ampify_runtime.optimizers import FusedAdam, FusedLAMB, FusedMixedPrecisionLamb, FusedNovoGrad, FusedSGD
from torch.optim import Optimizer

from .stepping import assert_near, give, gradients, parameters

MAKERS: dict[str, Callable[[Any], Optimizer]] = {
    "capturable": lambda p: FusedAdam(p, weight_decay=0.1, capturable=True),
    "masters": lambda p: FusedAdam(p, weight_decay=0.1, capturable=True, master_weights=True),
    "lamb": lambda p: FusedMixedPrecisionLamb(p, reduced_precision_dtype=torch.float16),
}
ON_HOST: dict[str, Callable[[Any], Optimizer]] = {
    "adam": lambda p: FusedAdam(p, weight_decay=0.1),
    "sgd": lambda p: FusedSGD(p, lr=0.1, momentum=0.9),
    "lamb": FusedLAMB,
    "novograd": FusedNovoGrad,
}


@pytest.fixture(autouse=True)
def torchs_own_warning() -> Any:
    """GradScaler tells of its plans each time that it gives itself to a step."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "GradScaler is going to stop passing itself", FutureWarning)
        yield


def everything(optimizer: Optimizer, params: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    states = [optimizer.state[parameter] for parameter in params]
    kept = [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]
    steps = [torch.as_tensor(group["step"]) for group in optimizer.param_groups if "step" in group]
    return [tensor.detach().clone() for tensor in (*params, *kept, *steps)]


def scaler_step(scaler: torch.amp.GradScaler, optimizer: Optimizer) -> None:
    scaler.step(optimizer)
    scaler.update()


# GradScaler itself refuses to unscale float16 gradients.
@pytest.mark.parametrize(
    ("dtype", "unscaled_by_hand"), [(torch.float32, False), (torch.float32, True), (torch.float16, False)]
)
@pytest.mark.parametrize("name", list(MAKERS))
def test_a_scaler_gives_itself_and_scaling_changes_nothing(
    name: str, dtype: torch.dtype, unscaled_by_hand: bool
) -> None:
    plain_params, params = parameters(dtype), parameters(dtype)
    plain, optimizer = MAKERS[name](plain_params), MAKERS[name](params)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for step in range(3):
        give(plain_params, gradients(step))
        plain.step()
        scaler.scale(torch.ones(()))
        give(params, gradients(step, 8.0))
        if unscaled_by_hand:
            scaler.unscale_(optimizer)
        scaler_step(scaler, optimizer)
        assert_near([p.grad for p in params], [p.grad for p in plain_params], 0.0)  # type: ignore[misc]
    assert_near(params, plain_params, 1e-6 if dtype is torch.float32 else 1e-3)
    assert scaler.get_scale() == 8.0


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("name", list(MAKERS))
def test_an_overflow_changes_no_bit_and_halves_the_scale(name: str, bad: float) -> None:
    params = parameters(torch.float16)
    optimizer = MAKERS[name](params)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for step in range(4):
        scaler.scale(torch.ones(()))
        give(params, gradients(step, 4.0))
        before = everything(optimizer, params)
        if step in (0, 2):
            params[3].grad.view(-1)[7] = bad  # type: ignore[union-attr]
        scaler_step(scaler, optimizer)
        if step in (0, 2):
            after = everything(optimizer, params)[: len(before)]
            counted = 0 if step == 0 else 1
            # At step 0 state is only made: parameters come first, and none has moved.
            kept = len(params) if step == 0 else len(before)
            assert all(torch.equal(left, right) for left, right in zip(before[:kept], after[:kept], strict=True))
            assert optimizer.param_groups[0]["step"].item() == counted
    assert scaler.get_scale() == 1.0
    assert optimizer.param_groups[0]["step"].item() == 2


@pytest.mark.parametrize("name", list(MAKERS))
def test_a_disabled_scaler_is_none(name: str) -> None:
    plain_params, params = parameters(), parameters()
    plain, optimizer = MAKERS[name](plain_params), MAKERS[name](params)
    give(params, gradients(0))
    give(plain_params, gradients(0))
    plain.step()
    optimizer.step(grad_scaler=torch.amp.GradScaler("cpu", enabled=False))
    assert all(torch.equal(left, right) for left, right in zip(params, plain_params, strict=True))


@pytest.mark.parametrize("name", list(ON_HOST))
def test_others_step_as_any_optimizer_does_under_a_scaler(name: str) -> None:
    plain_params, params = parameters(), parameters()
    plain, optimizer = ON_HOST[name](plain_params), ON_HOST[name](params)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for step in range(3):
        scaler.scale(torch.ones(()))
        give(params, gradients(step, 8.0 if step != 1 else float("inf")))
        scaler_step(scaler, optimizer)
        scaler.update(8.0)
        if step != 1:
            give(plain_params, gradients(step))
            plain.step()
    assert all(torch.equal(left, right) for left, right in zip(params, plain_params, strict=True))


@pytest.mark.parametrize("name", [*ON_HOST, "capturable"])
def test_under_amp_o1_an_overflow_is_skipped_and_the_rest_trains(name: str, float16: torch.dtype) -> None:
    make = {**ON_HOST, **MAKERS}[name] if name != "lamb" else FusedLAMB
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = make(model.parameters())
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1", loss_scale="dynamic", verbosity=0)
    x = torch.randn(32, 8)
    target = x.square().sum(1, keepdim=True)
    params = list(model.parameters())
    losses = []
    for step in range(12):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x).float(), target)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        if step == 3:
            params[0].grad[0, 0] = float("inf")
        before = everything(optimizer, params)
        optimizer.step()
        if step == 3:
            after = everything(optimizer, params)
            assert all(torch.equal(left, right) for left, right in zip(before, after, strict=True))
        losses.append(loss.item())
    assert losses[-1] < losses[0]
