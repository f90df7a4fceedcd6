"""Each fused optimizer against its algorithm in float64, and against torch's own where the algorithm is the same."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from ampify_runtime.optimizers import (
    FusedAdagrad,
    FusedAdam,
    FusedLAMB,
    FusedMixedPrecisionLamb,
    FusedNovoGrad,
    FusedSGD,
)
from torch.optim import Optimizer

from . import stepping
from .stepping import Plain, assert_near, give, gradients, parameters, plainly, train

KINDS: dict[str, Any] = {
    "FusedAdam": FusedAdam,
    "FusedSGD": lambda params: FusedSGD(params, lr=0.1, momentum=0.9),
    "FusedLAMB": FusedLAMB,
    "FusedMixedPrecisionLamb": FusedMixedPrecisionLamb,
    "FusedNovoGrad": lambda params: FusedNovoGrad(params, lr=0.5),
    "FusedAdagrad": FusedAdagrad,
}
# float32 alone rounds; half parameters are rounded once a step, each time by half a unit in their last place.
TOLERANCES = {torch.float64: 1e-6, torch.float32: 3e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}
STEPS = 4


def follow(optimizer: Optimizer, params: list[torch.nn.Parameter], plain: Plain, scale: float = 1.0) -> None:
    """Both make the same steps from the same gradients; the plain one goes on from parameters rounded as the other's."""
    dtype = params[0].dtype
    for step in range(STEPS):
        grads = gradients(step, scale)
        give(params, grads)
        before = [parameter.grad.clone() for parameter in params]  # type: ignore[union-attr]
        optimizer.step()
        plain.step([gradient.to(dtype).double() for gradient in grads])
        assert_near(params, plain.values, TOLERANCES[dtype])
        plain.values = [parameter.detach().double().clone() for parameter in params]
        assert all(torch.equal(parameter.grad, kept) for parameter, kept in zip(params, before, strict=True))


def choices(**options: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize(
    "chosen", choices(adam_w_mode=[True, False], bias_correction=[True, False], weight_decay=[0.0, 0.1]), ids=str
)
def test_adam(chosen: dict[str, Any], dtype: torch.dtype) -> None:
    params = parameters(dtype)
    plain = plainly(
        stepping.adam,
        params,
        lr=0.01,
        betas=(0.8, 0.95),
        eps=1e-6,
        weight_decay=chosen["weight_decay"],
        decoupled=chosen["adam_w_mode"],
        corrected=chosen["bias_correction"],
    )
    follow(FusedAdam(params, lr=0.01, betas=(0.8, 0.95), eps=1e-6, **chosen), params, plain)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize(
    "chosen",
    [
        *choices(momentum=[0.0, 0.9], weight_decay=[0.0, 0.1], wd_after_momentum=[False, True]),
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {"momentum": 0.9, "dampening": 0.5},
    ],
    ids=str,
)
def test_sgd(chosen: dict[str, Any], dtype: torch.dtype) -> None:
    params = parameters(dtype)
    plain = plainly(
        stepping.sgd,
        params,
        lr=0.05,
        momentum=chosen["momentum"],
        dampening=chosen.get("dampening", 0.0),
        weight_decay=chosen.get("weight_decay", 0.0),
        nesterov=chosen.get("nesterov", False),
        after=chosen.get("wd_after_momentum", False),
    )
    follow(FusedSGD(params, lr=0.05, **chosen), params, plain)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize(
    "chosen",
    [
        *choices(adam_w_mode=[True, False], weight_decay=[0.0, 0.1], use_nvlamb=[True, False]),
        {"grad_averaging": False},
        {"bias_correction": False},
        {"max_grad_norm": 1e6},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [FusedLAMB, FusedMixedPrecisionLamb])
def test_lamb(kind: Any, chosen: dict[str, Any], dtype: torch.dtype) -> None:
    params = parameters(dtype)
    plain = plainly(
        stepping.lamb,
        params,
        lr=0.02,
        betas=(0.8, 0.95),
        eps=1e-6,
        weight_decay=chosen.get("weight_decay", 0.01),
        decoupled=chosen.get("adam_w_mode", True),
        corrected=chosen.get("bias_correction", True),
        averaged=chosen.get("grad_averaging", True),
        max_norm=chosen.get("max_grad_norm", 1.0),
        always=chosen.get("use_nvlamb", False),
    )
    follow(kind(params, lr=0.02, betas=(0.8, 0.95), **chosen), params, plain)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize(
    "chosen",
    [
        *choices(reg_inside_moment=[True, False], norm_type=[2, 0], init_zero=[True, False]),
        {"grad_averaging": False},
        {"bias_correction": False},
    ],
    ids=str,
)
def test_novograd(chosen: dict[str, Any], dtype: torch.dtype) -> None:
    params = parameters(dtype)
    plain = plainly(
        stepping.novograd,
        params,
        lr=0.01,
        betas=(0.9, 0.5),
        eps=1e-6,
        weight_decay=0.1,
        inside=chosen.get("reg_inside_moment", False),
        corrected=chosen.get("bias_correction", True),
        averaged=chosen.get("grad_averaging", True),
        norm_type=chosen.get("norm_type", 2),
        from_zero=chosen.get("init_zero", False),
    )
    optimizer = FusedNovoGrad(params, lr=0.01, betas=(0.9, 0.5), eps=1e-6, weight_decay=0.1, **chosen)
    follow(optimizer, params, plain)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("chosen", choices(adagrad_w_mode=[True, False], weight_decay=[0.0, 0.1]), ids=str)
def test_adagrad(chosen: dict[str, Any], dtype: torch.dtype) -> None:
    params = parameters(dtype)
    plain = plainly(
        stepping.adagrad,
        params,
        lr=0.05,
        eps=1e-6,
        weight_decay=chosen["weight_decay"],
        decoupled=chosen["adagrad_w_mode"],
    )
    follow(FusedAdagrad(params, lr=0.05, eps=1e-6, **chosen), params, plain)


PAIRS = {
    "AdamW": (lambda p: FusedAdam(p, weight_decay=0.1), lambda p: torch.optim.AdamW(p, weight_decay=0.1)),
    "Adam": (
        lambda p: FusedAdam(p, weight_decay=0.1, adam_w_mode=False),
        lambda p: torch.optim.Adam(p, weight_decay=0.1),
    ),
    "SGD": (
        lambda p: FusedSGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    ),
    "Adagrad": (FusedAdagrad, torch.optim.Adagrad),
}


@pytest.mark.parametrize("name", list(PAIRS))
def test_as_torchs_own(name: str) -> None:
    fused_params, torch_params = parameters(torch.float32), parameters(torch.float64)
    ours, theirs = (make(params) for make, params in zip(PAIRS[name], (fused_params, torch_params), strict=True))
    for step in range(5):
        # One parameter is trained from the third step on only, and one never.
        grads = [*gradients(step)]
        given = [None if index == 1 or (index == 2 and step < 2) else gradient for index, gradient in enumerate(grads)]
        for params, optimizer in ((fused_params, ours), (torch_params, theirs)):
            give(params, given)
            optimizer.step()
    assert_near(fused_params, torch_params, 1e-6)
    assert torch.equal(fused_params[1], parameters()[1])


@pytest.mark.parametrize("kind", list(KINDS))
def test_any_layout_of_parameters_and_gradients(kind: str) -> None:
    """Channels last, a view with gaps, a gradient of other strides, and views that start off their type's alignment."""
    storage = torch.arange(200.0)

    def make(plain: bool) -> list[torch.nn.Parameter]:
        values = [
            storage[1:25].reshape(2, 3, 2, 2).to(memory_format=torch.channels_last),
            storage[101:197:2].reshape(6, 8),
            storage[30:54].reshape(4, 6).t(),
        ]
        return [torch.nn.Parameter(value.clone().contiguous() if plain else value) for value in values]

    def gradient(parameter: torch.Tensor) -> torch.Tensor:
        return torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape)

    storage = storage.clone()
    results = []
    for plain in (True, False):
        storage.copy_(torch.arange(200.0))
        params = make(plain)
        optimizer = KINDS[kind](params)
        for parameter in params:
            parameter.grad = gradient(parameter)
            if not plain:
                parameter.grad = parameter.grad.t().contiguous().t() if parameter.dim() == 2 else parameter.grad
        optimizer.step()
        results.append([parameter.detach().clone().contiguous() for parameter in params])
    assert_near(results[1], results[0], 1e-6)


@pytest.mark.parametrize("kind", list(KINDS))
def test_mixed_types_empty_groups_and_nothing_to_do(kind: str) -> None:
    half, single = torch.nn.Parameter(torch.ones(3).half()), torch.nn.Parameter(torch.ones(4))
    optimizer = KINDS[kind]([half, single])
    optimizer.add_param_group({"params": []})
    optimizer.step()
    assert torch.equal(half, torch.ones(3).half())
    half.grad, single.grad = torch.ones(3).half(), torch.ones(4)
    optimizer.step()
    assert half.dtype is torch.float16
    assert (half < 1).all()
    assert (single < 1).all()
    optimizer.zero_grad()
    assert half.grad is None or not half.grad.any()


@pytest.mark.parametrize("kind", list(KINDS))
def test_sparse_and_integer_are_refused(kind: str) -> None:
    embedding = torch.nn.Embedding(4, 3, sparse=True)
    optimizer = KINDS[kind](embedding.parameters())
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=r"step: a parameter of shape \(4, 3\) has a sparse gradient; use torch"):
        optimizer.step()
    complex_parameter = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    optimizer = KINDS[kind]([complex_parameter])
    complex_parameter.grad = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match=r"is of torch.complex64"):
        optimizer.step()


@pytest.mark.parametrize("kind", list(KINDS))
def test_closure_runs_with_autograd_and_its_loss_comes_back(kind: str) -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = KINDS[kind]([parameter])

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0
    assert (parameter < 1).all()


@pytest.mark.parametrize("kind", list(KINDS))
def test_schedulers_and_edited_rates_are_obeyed(kind: str) -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = KINDS[kind]([parameter])
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: float(epoch == 0))
    parameter.grad = torch.ones(2)
    optimizer.step()
    scheduler.step()
    moved = parameter.detach().clone()
    assert not torch.equal(moved, torch.ones(2))
    optimizer.step()
    assert torch.equal(parameter, moved), "the scheduler brought the rate to 0"
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()
    assert not torch.equal(parameter, moved)


def test_zero_grad_does_as_constructed_and_as_told() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    for set_grad_none, told, kept in (
        (True, None, False),
        (False, None, True),
        (False, True, False),
        (True, False, True),
    ):
        optimizer = FusedAdam([parameter], set_grad_none=set_grad_none)
        parameter.grad = torch.ones(2)
        optimizer.zero_grad() if told is None else optimizer.zero_grad(set_to_none=told)
        assert (parameter.grad is not None) is kept


def test_choices_that_cannot_be() -> None:
    params = [torch.nn.Parameter(torch.ones(2))]
    for kind in (FusedAdam, FusedLAMB, FusedMixedPrecisionLamb, FusedNovoGrad):
        with pytest.raises(RuntimeError, match="amsgrad=True is not available"):
            kind(params, amsgrad=True)
    with pytest.raises(RuntimeError, match="needs capturable=True"):
        FusedAdam(params, master_weights=True)
    with pytest.raises(RuntimeError, match="of an older apex"):
        FusedAdam(params).step(scale=2.0)
    with pytest.raises(ValueError, match="lr is missing"):
        FusedSGD(params)
    with pytest.raises(ValueError, match=r"lr=-1.0 is below 0"):
        FusedSGD(params, lr=-1.0)
    with pytest.raises(ValueError, match="nesterov needs momentum"):
        FusedSGD(params, lr=0.1, nesterov=True)
    with pytest.raises(ValueError, match="norm_type=1"):
        FusedNovoGrad(params, norm_type=1)
    assert FusedSGD([{"params": params, "lr": 0.1}]).param_groups[0]["lr"] == 0.1


def test_sgd_divides_by_the_scale_that_apexs_amp_would_set() -> None:
    params, scaled = parameters(), parameters()
    plain, told = FusedSGD(params, lr=0.1, momentum=0.9), FusedSGD(scaled, lr=0.1, momentum=0.9)
    for step in range(3):
        give(params, gradients(step))
        plain.step()
        give(scaled, gradients(step, 4.0))
        told.most_recent_scale = 4.0
        told.step()
        assert told.most_recent_scale == 1.0
    assert all(torch.equal(left, right) for left, right in zip(params, scaled, strict=True))


def test_groups_have_choices_of_their_own() -> None:
    params, alone = parameters(), parameters()
    optimizer = FusedAdam([{"params": params[:2], "lr": 0.1}, {"params": params[2:], "weight_decay": 0.5}], lr=0.01)
    first = FusedAdam(alone[:2], lr=0.1)
    second = FusedAdam(alone[2:], lr=0.01, weight_decay=0.5)
    for step in range(3):
        train(optimizer, params, [step])
        give(alone, gradients(step))
        first.step()
        second.step()
    assert all(torch.equal(left, right) for left, right in zip(params, alone, strict=True))
