"""What fused optimizers save and load: as torch.optim does, as apex does, in copies and pickles, and bit for bit."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
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

from .stepping import assert_near, give, gradients, parameters, train

Maker = Callable[[Any], Optimizer]
MAKERS: dict[str, Maker] = {
    "Adam": lambda p: FusedAdam(p, weight_decay=0.1, adam_w_mode=False, set_grad_none=False),
    "AdamW, no bias correction": lambda p: FusedAdam(p, weight_decay=0.1, bias_correction=False),
    "AdamW, capturable": lambda p: FusedAdam(p, weight_decay=0.1, capturable=True),
    "AdamW, masters": lambda p: FusedAdam(p, weight_decay=0.1, capturable=True, master_weights=True),
    "SGD": lambda p: FusedSGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, wd_after_momentum=True),
    "LAMB": lambda p: FusedLAMB(p, adam_w_mode=False, use_nvlamb=True),
    "LAMB, masters": lambda p: FusedMixedPrecisionLamb(p, reduced_precision_dtype=torch.float16),
    "NovoGrad": lambda p: FusedNovoGrad(p, reg_inside_moment=True),
    "NovoGrad, largest": lambda p: FusedNovoGrad(p, norm_type=0),
    "Adagrad": lambda p: FusedAdagrad(p, weight_decay=0.1, adagrad_w_mode=True),
}


def same(left: list[torch.nn.Parameter], right: list[torch.nn.Parameter]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def copied(params: list[torch.nn.Parameter]) -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(parameter.detach().clone()) for parameter in params]


def saved(state: dict[str, Any]) -> dict[str, Any]:
    """Through a file, as a checkpoint goes, read as strangers' files are."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", list(MAKERS))
def test_resuming_is_going_on(name: str, dtype: torch.dtype) -> None:
    params = parameters(dtype)
    optimizer = MAKERS[name](params)
    train(optimizer, params, range(3))
    resumed = copied(params)
    other = MAKERS[name](resumed)
    other.load_state_dict(saved(optimizer.state_dict()))
    for state in other.state.values():
        assert all(value.dtype is torch.float32 for key, value in state.items() if key != "step")
    train(optimizer, params, range(3, 6))
    train(other, resumed, range(3, 6))
    assert same(params, resumed)


@pytest.mark.parametrize("name", list(MAKERS))
def test_copies_and_pickles_go_on_alike(name: str) -> None:
    params = parameters(torch.float16)
    optimizer = MAKERS[name](params)
    train(optimizer, params, range(2))
    twins = [copy.deepcopy([optimizer, params]), pickle.loads(pickle.dumps([optimizer, params]))]
    train(optimizer, params, [2])
    for twin, twin_params in twins:
        assert not same(params, twin_params)
        train(twin, twin_params, [2])
        assert same(params, twin_params)
        twin.zero_grad()
        assert (twin_params[0].grad is None) == getattr(optimizer, "set_grad_none", True)


TORCH = {
    "AdamW": (lambda p: FusedAdam(p, weight_decay=0.1), lambda p: torch.optim.AdamW(p, weight_decay=0.1)),
    "AdamW, capturable": (
        lambda p: FusedAdam(p, weight_decay=0.1, capturable=True),
        lambda p: torch.optim.AdamW(p, weight_decay=0.1),
    ),
    "Adam": (
        lambda p: FusedAdam(p, weight_decay=0.1, adam_w_mode=False),
        lambda p: torch.optim.Adam(p, weight_decay=0.1),
    ),
    "SGD": (
        lambda p: FusedSGD(p, lr=0.1, momentum=0.9, dampening=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
    ),
    "SGD without momentum": (lambda p: FusedSGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
}


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("name", list(TORCH))
def test_torchs_state_dicts_are_ours_and_ours_are_torchs(name: str, back: bool) -> None:
    ours, theirs = TORCH[name]
    first, second = (theirs, ours) if back else (ours, theirs)
    params = parameters()
    reference = copied(params)
    before = first(params)
    untouched = theirs(reference)
    train(before, params, range(3))
    train(untouched, reference, range(3))
    after = second(params)
    after.load_state_dict(saved(before.state_dict()))
    train(after, params, range(3, 6))
    train(untouched, reference, range(3, 6))
    assert_near(params, reference, 2e-6)


def test_parameters_of_one_group_may_have_made_different_numbers_of_steps() -> None:
    params = parameters()
    theirs = torch.optim.AdamW(params, weight_decay=0.1)
    for step in range(3):
        give(params, [None if index == 0 and step < 2 else grad for index, grad in enumerate(gradients(step))])
        theirs.step()
    resumed = copied(params)
    ours = FusedAdam(resumed, weight_decay=0.1)
    ours.load_state_dict(saved(theirs.state_dict()))
    train(theirs, params, range(3, 6))
    train(ours, resumed, range(3, 6))
    assert_near(resumed, params, 1e-6)
    with pytest.raises(ValueError, match=r"have made \[4, 6\] steps.*load it where capturable=False"):
        FusedAdam(resumed, capturable=True).load_state_dict(ours.state_dict())


@pytest.mark.parametrize("capturable", [False, True])
def test_apexs_adam_counts_by_group(capturable: bool) -> None:
    """Written by hand in the form of apex's checkpoints: no step by parameter, half-precision moments cast by torch."""
    params = parameters()
    ours = FusedAdam(params, capturable=capturable)
    train(ours, params, range(3))
    state = saved(ours.state_dict())
    for entry in state["state"].values():
        del entry["step"]
    step = torch.tensor([3], dtype=torch.int32) if capturable else 3
    assert state["param_groups"][0]["step"] == step
    resumed = copied(params)
    other = FusedAdam(resumed, capturable=capturable)
    other.load_state_dict(state)
    train(ours, params, [3, 4])
    train(other, resumed, [3, 4])
    assert same(params, resumed)


def test_apexs_novograd_keeps_norms_by_group_and_precision() -> None:
    mixed = [
        torch.nn.Parameter(torch.ones(3).half()),
        torch.nn.Parameter(torch.ones(2)),
        torch.nn.Parameter(torch.ones(4)),
    ]
    ours = FusedNovoGrad([*mixed, torch.nn.Parameter(torch.ones(1))])
    for size, parameter in zip((3.0, 2.0, 4.0), mixed, strict=True):
        parameter.grad = torch.full_like(parameter, size)
    ours.step()
    state = ours.state_dict()
    half, single = state["param_groups"][0]["exp_avg_sq"]
    torch.testing.assert_close(half, torch.tensor([3.0 * 3**0.5]))
    torch.testing.assert_close(single, torch.tensor([2.0 * 2**0.5, 4.0 * 2.0]))
    assert "grad_norm" not in state["state"][0]
    assert "grad_norm" in ours.state[mixed[0]], "what is saved is a copy"
    state["param_groups"][0]["exp_avg_sq"] = [half, single[:1]]
    with pytest.raises(ValueError, match="has 1 norms for 2 parameters of one precision"):
        FusedNovoGrad([*mixed, torch.nn.Parameter(torch.ones(1))]).load_state_dict(state)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda p: torch.optim.AdamW(p, amsgrad=True), "saved with amsgrad=True"),
        (lambda p: torch.optim.AdamW(p, maximize=True), "saved with maximize=True"),
        (lambda p: torch.optim.Adam(p, weight_decay=0.1), "construct FusedAdam with adam_w_mode=False"),
    ],
)
def test_states_of_other_algorithms_are_refused(made: Maker, message: str) -> None:
    params = parameters()
    theirs = made(params)
    train(theirs, params, [0])
    ours = FusedAdam(copied(params))
    with pytest.raises(ValueError, match=message):
        ours.load_state_dict(theirs.state_dict())
    with pytest.raises(ValueError, match=r"saved with lr_decay=0\.5"):
        FusedAdagrad(copied(params)).load_state_dict(torch.optim.Adagrad(params, lr_decay=0.5).state_dict())


def test_masters_are_saved_and_start_from_the_weights_of_the_first_step() -> None:
    params = parameters(torch.float16)
    optimizer = FusedAdam(params, lr=1e-4, capturable=True, master_weights=True)
    assert optimizer.param_groups_master[0]["params"] == [None] * len(params)
    with torch.no_grad():
        params[0].fill_(0.5)
    train(optimizer, params, [0])
    masters = optimizer.param_groups_master[0]["params"]
    assert all(master.dtype is torch.float32 for master in masters)
    torch.testing.assert_close(masters[0], torch.full((5,), 0.5), atol=2e-4, rtol=0)
    assert all(torch.equal(parameter, master.half()) for parameter, master in zip(params, masters, strict=True))
    assert "master_param" in optimizer.state_dict()["state"][0]


def test_a_group_added_later_is_trained_with_masters_too() -> None:
    first, second = parameters(torch.float16), parameters(torch.float16, seed=1)
    optimizer = FusedAdam(first, capturable=True, master_weights=True)
    train(optimizer, first, [0])
    optimizer.add_param_group({"params": second, "lr": 0.1})
    before = copied(second)
    give(first, gradients(1))
    train(optimizer, second, [1])
    assert not same(before, second)
    assert optimizer.param_groups[1]["lr"] == torch.tensor(0.1)
