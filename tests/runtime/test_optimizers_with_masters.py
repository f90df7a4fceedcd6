"""Fused optimizers at O2 and O5, where they step fp32 masters: the same numbers as torch's optimizers there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from ampify_runtime.optimizers import FusedAdagrad, FusedAdam, FusedLAMB, FusedNovoGrad, FusedSGD
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from .stepping import assert_near

Maker = Callable[[Any], Optimizer]
PAIRS: dict[str, tuple[Maker, Maker]] = {
    "AdamW": (lambda p: FusedAdam(p, lr=0.01), lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.0)),
    "AdamW, capturable": (
        lambda p: FusedAdam(p, lr=0.01, capturable=True),
        lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.0),
    ),
    "SGD": (
        lambda p: FusedSGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    ),
    "SGD, gradients not materialized": (
        lambda p: FusedSGD(p, lr=0.1, momentum=0.9, materialize_master_grads=False),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    ),
    "Adagrad": (lambda p: FusedAdagrad(p, lr=0.05), lambda p: torch.optim.Adagrad(p, lr=0.05)),
}


def borrowing(make: Maker) -> Maker:
    """The optimizer that `make` makes, told that it can do without gradients of masters."""

    def made(params: Any) -> Optimizer:
        optimizer = make(params)
        optimizer.materialize_master_grads = False  # type: ignore[attr-defined]
        return optimizer

    return made


PAIRS |= {
    f"{name}, borrowing": (borrowing(PAIRS[name][0]), PAIRS[name][1])
    for name in ("AdamW", "AdamW, capturable", "Adagrad")
}
PAIRS["NovoGrad, borrowing"] = (borrowing(lambda p: FusedNovoGrad(p, lr=1.0)), lambda p: FusedNovoGrad(p, lr=1.0))
PAIRS["LAMB, borrowing"] = (borrowing(lambda p: FusedLAMB(p, lr=0.05)), lambda p: FusedLAMB(p, lr=0.05))
BORROWING = [name for name in PAIRS if "borrowing" in name or "not materialized" in name]


def make_model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 3))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(16, 8, generator=generator)
    return x, x[:, :3].abs()


def run(
    make: Maker,
    level: str,
    *,
    accumulate: int = 1,
    clip: float | None = None,
    overflow: int | None = None,
    steps: int = 6,
) -> tuple[nn.Module, Optimizer]:
    model = make_model()
    optimizer = make(model.parameters())
    amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(accumulate):
            x, target = batch(step * accumulate + part)
            loss = nn.functional.mse_loss(model(x).float(), target) / accumulate
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                (scaled_loss * (float("inf") if step == overflow else 1.0)).backward()
        if clip is not None:
            clip_grad_norm_(amp.master_params(optimizer), clip)
        optimizer.step()
    return model, optimizer


def masters(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def reduced(model: nn.Module, optimizer: Optimizer) -> list[torch.Tensor]:
    """The masters of reduced parameters."""
    pairs = zip(model.parameters(), masters(optimizer), strict=True)
    return [master for parameter, master in pairs if parameter.dtype is not torch.float32]


CASES: list[dict[str, Any]] = [{}, {"accumulate": 3}, {"clip": 0.05}, {"accumulate": 2, "clip": 0.1}]


@pytest.mark.parametrize("chosen", CASES, ids=str)
@pytest.mark.parametrize("level", ["O2", "O5"])
@pytest.mark.parametrize("name", list(PAIRS))
def test_the_same_steps_as_torchs_optimizer(name: str, level: str, chosen: dict[str, Any]) -> None:
    fused, plain = (run(make, level, **chosen) for make in PAIRS[name])
    assert_near(masters(fused[1]), masters(plain[1]), 1e-5)
    for model, optimizer in (fused, plain):
        for parameter, master in zip(model.parameters(), masters(optimizer), strict=True):
            assert torch.equal(parameter, master.to(parameter.dtype))


@pytest.mark.parametrize("overflow", [0, 2])
@pytest.mark.parametrize("name", list(PAIRS))
def test_a_step_that_overflows_is_as_if_it_had_not_been(name: str, overflow: int) -> None:
    fused, plain = (run(make, "O2", overflow=overflow) for make in PAIRS[name])
    assert_near(masters(fused[1]), masters(plain[1]), 1e-5)
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**15
    steps = [group["step"] for group in fused[1].param_groups if "step" in group]
    assert all(int(step) == 5 for step in steps)


@pytest.mark.parametrize(("make", "lr"), [(FusedLAMB, 0.05), (FusedNovoGrad, 1.0)], ids=["LAMB", "NovoGrad"])
def test_others_train(make: Any, lr: float) -> None:
    model, optimizer = run(lambda p: make(p, lr=lr), "O2", steps=20)
    x, target = batch(99)
    before = nn.functional.mse_loss(make_model()(x), target)
    assert nn.functional.mse_loss(model(x).float(), target) < before / 2
    assert all(state["exp_avg"].dtype is torch.float32 for state in optimizer.state.values())


@pytest.mark.parametrize("level", ["O2", "O5"])
@pytest.mark.parametrize("name", BORROWING)
def test_masters_get_gradients_only_when_asked_for(name: str, level: str) -> None:
    model, optimizer = run(PAIRS[name][0], level, steps=2)
    assert all(master.grad is None for master in reduced(model, optimizer))
    grads = [parameter.grad for parameter in amp.master_params(optimizer)]
    scale = amp.loss_scale()
    for grad, parameter in zip(grads, model.parameters(), strict=True):
        by = 1.0 if parameter.dtype is torch.float32 else scale
        assert_near([grad], [parameter.grad / by], 1e-6)  # type: ignore[list-item, operator]
    model.zero_grad()
    optimizer.step()
    kept = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer.step()
    assert all(torch.equal(left, right) for left, right in zip(model.parameters(), kept, strict=True))


@pytest.mark.parametrize("name", BORROWING)
def test_what_a_hook_does_to_masters_after_a_borrowing_step_reaches_the_model(name: str) -> None:
    def clamp(stepped: Optimizer, *_: Any) -> None:
        with torch.no_grad():
            for master in masters(stepped):
                master.fill_(0.25)

    model = make_model()
    optimizer = PAIRS[name][0](model.parameters())
    optimizer.register_step_post_hook(clamp)
    amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
    x, target = batch(7)
    with amp.scale_loss(nn.functional.mse_loss(model(x).float(), target), optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    assert all((parameter == 0.25).all() for parameter in model.parameters())


def test_a_clip_of_scaled_gradients_is_told_of_in_a_borrowing_step_too() -> None:
    model, optimizer = run(PAIRS["SGD, gradients not materialized"][0], "O2", steps=1)
    optimizer.zero_grad()
    x, target = batch(3)
    with amp.scale_loss(nn.functional.mse_loss(model(x).float(), target), optimizer) as scaled_loss:
        scaled_loss.backward()
    for parameter in model.parameters():
        parameter.grad.mul_(0.5)
    with pytest.warns(amp.AmpWarning, match="clip amp.master_params"):
        optimizer.step()


def test_delayed_unscaling_and_checkpoints_of_a_borrowing_optimizer() -> None:
    results = []
    for make in PAIRS["AdamW, borrowing"]:
        model = make_model()
        optimizer = make(model.parameters())
        amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
        for step in range(4):
            optimizer.zero_grad()
            for part in range(2):
                x, target = batch(2 * step + part)
                loss = nn.functional.mse_loss(model(x).float(), target)
                with amp.scale_loss(loss, optimizer, delay_unscale=part == 0) as scaled_loss:
                    scaled_loss.backward()
            optimizer.step()
            optimizer.load_state_dict(optimizer.state_dict())
        results.append(masters(optimizer))
    assert_near(results[0], results[1], 1e-5)
