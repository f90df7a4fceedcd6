"""The operations in plain torch: what a step is decided by, and what is decided on a device without waiting for it."""

from __future__ import annotations

import math

import pytest
import torch
from ampify_runtime.kernels import reference
from ampify_runtime.kernels.operations import ScaleUpdate, StepState
from ampify_runtime.kernels.reference import rules
from ampify_runtime.kernels.reference.reading import unless, working
from ampify_runtime.kernels.state import GradStats

from .stepping import gradients

DEFAULTS = {
    "lr": 0.1,
    "step": 1,
    "betas": (0.0, 0.0),
    "bias_correction": False,
    "found_inf": None,
    "scale": None,
    "max_norm": 0.0,
    "norm_epsilon": 1e-6,
    "scale_update": None,
}


def prepared(stats: GradStats | None = None, **chosen: object) -> StepState:
    state = StepState.on(torch.device("cpu"))
    reference.step_prep(state, stats, **{**DEFAULTS, **chosen})  # type: ignore[arg-type]
    return state


def test_stats_tell_sums_and_overflow_apart() -> None:
    grads = [gradient.half() for gradient in gradients(0)]
    stats = reference.grad_stats(grads)
    torch.testing.assert_close(stats.sums, torch.stack([g.double().square().sum() for g in grads]).float())
    assert stats.found_inf.item() == 0.0
    grads[1][1, 1] = math.nan
    assert reference.grad_stats(grads).found_inf.item() == 1.0
    huge = reference.grad_stats([torch.full((8,), 1e20)])
    assert torch.isinf(huge.sums).all()
    assert huge.found_inf.item() == 0.0, "squares that overflow are no overflow of a gradient"
    with pytest.raises(ValueError, match="no device to answer on"):
        reference.grad_stats([])


def test_a_step_is_decided_by_what_is_known_of_its_gradients() -> None:
    stats = GradStats(torch.tensor([9.0, 16.0]), torch.tensor(0.0))
    state = prepared(
        stats,
        lr=torch.tensor([0.25]),
        step=3,
        betas=(0.9, 0.999),
        bias_correction=True,
        scale=torch.tensor([4.0]),
        max_norm=0.5,
        norm_epsilon=0.0,
    )
    expected = {
        "skip": 0.0,
        "inv_scale": 0.25,
        "grad_norm": 1.25,
        "clip": 0.4,
        "grad_factor": 0.1,
        "lr": 0.25,
        "bias_correction1": 1 - 0.9**3,
        "bias_correction2": 1 - 0.999**3,
        "step": 3.0,
    }
    assert {name: getattr(state, name).item() for name in expected} == pytest.approx(expected, rel=1e-6)
    assert prepared(stats, max_norm=100.0).clip.item() == 1.0
    assert prepared(stats, max_norm=1.0).clip.item() == pytest.approx(1 / (5 + 1e-6))


@pytest.mark.parametrize(
    "flags", [(0.0, None, 0), (1.0, None, 1), (0.0, 1, 1), (None, 1, 1), (None, 0, 0), (None, None, 0)]
)
def test_a_skipped_step_does_not_count(flags: tuple[float | None, int | None, int]) -> None:
    in_stats, beside, expected = flags
    stats = None if in_stats is None else GradStats(torch.ones(1), torch.tensor(in_stats))
    found_inf = None if beside is None else torch.tensor([beside], dtype=torch.int32)
    count = torch.tensor([5], dtype=torch.int32)
    state = prepared(stats, step=count, found_inf=found_inf)
    assert state.skip.item() == expected
    assert count.item() == 6 - expected
    assert state.step.item() == count.item()


def test_the_scale_moves_as_torchs_scaler_moves_it() -> None:
    overflows = [0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0]
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)
    scaler.scale(torch.ones(()))
    scale, tracker = torch.tensor([64.0]), torch.tensor(0, dtype=torch.int32)
    update = ScaleUpdate(tracker, growth_interval=3)
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    for overflow in overflows:
        parameter.grad = torch.tensor([math.inf if overflow else 1.0])
        scaler.step(optimizer)
        scaler.update()
        prepared(scale=scale, found_inf=torch.tensor([float(overflow)]), scale_update=update)
        assert scale.item() == scaler.get_scale()
        assert tracker.item() == scaler.state_dict()["_growth_tracker"]
    bounded = ScaleUpdate(torch.tensor(0, dtype=torch.int32), growth_interval=1, lowest=32.0, highest=100.0)
    for overflow, expected in ((0.0, 100.0), (1.0, 50.0), (1.0, 32.0)):
        scale.fill_(64.0) if expected == 100.0 else None
        prepared(scale=scale, found_inf=torch.tensor([overflow]), scale_update=bounded)
        assert scale.item() == expected


def test_the_largest_scale_does_not_grow_to_infinity() -> None:
    scale = torch.tensor([3e38])
    prepared(scale=scale, scale_update=ScaleUpdate(torch.tensor(0, dtype=torch.int32), growth_interval=1))
    assert scale.item() == pytest.approx(3e38)


def test_on_a_device_what_is_skipped_is_chosen_by_element() -> None:
    old, new = [torch.ones(2).half(), torch.ones(3)], [torch.full((2,), math.nan), torch.full((3,), 2.0)]
    kept = unless(torch.tensor(1.0), new, old)
    assert all(torch.equal(left, right.to(left.dtype)) for left, right in zip(kept, old, strict=True))
    assert unless(torch.tensor([0.0]), new, old)[1].tolist() == [2.0] * 3


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_a_device_may_skip_is_computed_beside_the_tensors_themselves(device: str) -> None:
    tensors = [torch.ones(2), torch.ones(3).half()]
    values = working(tensors, tensors, torch.zeros((), device=device))
    assert [value.dtype for value in values] == [torch.float32, torch.float32]
    assert (values[0].data_ptr() == tensors[0].data_ptr()) is (device == "cpu")
    assert values[1].data_ptr() != tensors[1].data_ptr()


def test_coefficients_on_a_device_count_as_numbers_do() -> None:
    grads, values = gradients(0), gradients(1)
    zeros = [torch.zeros_like(value) for value in values]
    choices = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "decay": 0.1, "decoupled": True}
    numbers = {"lr": 0.125, "correction1": 0.25, "correction2": 0.5}
    on_device = {name: torch.tensor(value) for name, value in numbers.items()}
    results = []
    for coefficients in (numbers, on_device):
        lists = [[value.clone() for value in each] for each in (values, zeros, zeros)]
        rules.adam_(grads, *lists, **choices, **coefficients)  # type: ignore[arg-type]
        results.append(lists)
    for left, right in zip(*results, strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("now", [True, False])
def test_a_first_run_told_on_a_device_is_one_told_as_it_is(now: bool) -> None:
    choices = {"momentum": 0.9, "dampening": 0.5, "decay": 0.0, "nesterov": False, "decay_after_momentum": False}
    results = []
    for lr, first_run in ((0.125, now), (torch.tensor(0.125), torch.tensor(now))):
        lists = [[value.clone() for value in gradients(step)] for step in (1, 2)]
        rules.sgd_(gradients(0), *lists, lr=lr, first_run=first_run, **choices)  # type: ignore[arg-type]
        results.append(lists)
    for left, right in zip(*results, strict=True):
        torch.testing.assert_close(left, right)


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises(TypeError, match=r"operations take dense tensors"):
        reference.scale([torch.eye(3).to_sparse()], [torch.eye(3)], 1.0, None)


def test_max_norms_and_empty_tensors() -> None:
    found = reference.max_norms([torch.tensor([1.0, -3.0]).half(), torch.zeros(0), torch.tensor([math.nan])])
    assert found[:2].tolist() == [3.0, 0.0]
    assert found[2].isnan()
    norms = reference.l2norm([torch.zeros(0), torch.tensor([3.0, 4.0])])
    assert (norms.total.item(), norms.each.tolist()) == (5.0, [0.0, 5.0])
