"""step_prep by its kernel and by the reference, against Python's float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from ampify_runtime.kernels import operations
from ampify_runtime.kernels.state import GradStats, ScaleUpdate, StepState

CPU = torch.device("cpu")


@pytest.fixture(params=["kernel", "reference"], autouse=True)
def carried_out_by(request: pytest.FixtureRequest) -> None:
    """Each test twice: the two must agree in all that follows."""
    if request.param == "kernel":
        request.getfixturevalue("emulation")


def _stats(squares: list[float], found_inf: float = 0.0) -> GradStats:
    return GradStats(torch.tensor(squares), torch.tensor(found_inf))


def _prepared(stats: GradStats | None = None, **options: Any) -> StepState:
    state = StepState.on(CPU)
    operations.step_prep(state, stats, **{"lr": 0.1, **options})
    return state


def test_at_rest() -> None:
    state = _prepared(step=4)
    assert state.values[:9].tolist() == pytest.approx([0, 1, 1, 1, 0, 0.1, 1, 1, 4])


@pytest.mark.parametrize("step", [1, 2, 1000, 1_000_000])
def test_bias_corrections_are_rounded_once(step: int) -> None:
    state = _prepared(step=step, betas=(0.9, 0.999), bias_correction=True)
    exact = [1.0 - 0.9**step, 1.0 - 0.999**step]
    assert [float(state.bias_correction1), float(state.bias_correction2)] == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("scale", [1.0, 3.0, 65536.0])
@pytest.mark.parametrize("max_norm", [0.0, 0.5, 1e6])
def test_norm_and_clip(scale: float, max_norm: float) -> None:
    squares = [9.0 * scale**2, 16.0 * scale**2, 0.0]
    state = _prepared(_stats(squares), scale=torch.tensor([scale]), max_norm=max_norm)
    clip = min(1.0, max_norm / (5.0 + 1e-6)) if max_norm else 1.0
    values = [float(state.grad_norm), float(state.clip), float(state.inv_scale), float(state.grad_factor)]
    assert values == pytest.approx([5.0, clip, 1 / scale, clip / scale], rel=1e-6)


def test_many_sums() -> None:
    state = _prepared(_stats([1.0] * 1000), max_norm=1.0, norm_epsilon=0.0)
    assert float(state.grad_norm) == pytest.approx(math.sqrt(1000))
    assert float(state.clip) == pytest.approx(1 / math.sqrt(1000))


@pytest.mark.parametrize(("square", "clip"), [(float("inf"), 0.0), (float("nan"), float("nan"))])
def test_a_norm_that_is_not_finite(square: float, clip: float) -> None:
    state = _prepared(_stats([square]), max_norm=1.0)
    assert float(state.clip) == pytest.approx(clip, nan_ok=True)


@pytest.mark.parametrize(
    ("by_stats", "by_flag", "skipped"), [(0.0, 0, False), (1.0, 0, True), (0.0, 1, True), (1.0, 1, True)]
)
@pytest.mark.parametrize("kind", [torch.float32, torch.int32])
def test_what_skips(by_stats: float, by_flag: int, kind: torch.dtype, skipped: bool) -> None:
    step = torch.tensor([7], dtype=torch.int32)
    found_inf = torch.tensor([by_flag], dtype=kind)
    state = _prepared(_stats([1.0], by_stats), step=step, found_inf=found_inf)
    assert bool(state.skip) is skipped
    assert step.tolist() == [7 if skipped else 8]
    assert float(state.step) == (7 if skipped else 8)


def test_a_learning_rate_on_the_device() -> None:
    assert float(_prepared(lr=torch.tensor([0.25])).lr) == 0.25


MOVES = [
    # clean steps so far, overflow, options → scale, clean steps
    (0, 0.0, {}, 16.0, 1),
    (1, 0.0, {}, 32.0, 0),
    (1, 1.0, {}, 8.0, 0),
    (1, 0.0, {"highest": 20.0}, 20.0, 0),
    (1, 1.0, {"lowest": 10.0}, 10.0, 0),
    (1, 0.0, {"growth_factor": 1e38}, 16.0, 0),
]


@pytest.mark.parametrize(("tracker", "overflow", "options", "scale", "after"), MOVES)
def test_how_the_scale_moves(
    tracker: int, overflow: float, options: dict[str, float], scale: float, after: int
) -> None:
    current, steps = torch.tensor(16.0), torch.tensor(tracker, dtype=torch.int32)
    update = ScaleUpdate(steps, growth_interval=2, **options)
    state = _prepared(_stats([1.0], overflow), scale=current, scale_update=update)
    assert (float(current), int(steps)) == (scale, after)
    assert float(state.inv_scale) == 1 / 16.0


def test_the_scale_moves_as_torchs() -> None:
    ours, theirs = torch.tensor(16.0), torch.tensor(16.0)
    tracker, growth = torch.zeros((), dtype=torch.int32), torch.zeros((), dtype=torch.int32)
    for overflow in [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]:
        _prepared(_stats([1.0], overflow), scale=ours, scale_update=ScaleUpdate(tracker, growth_interval=2))
        torch._amp_update_scale_(theirs, growth, torch.tensor(overflow), 2.0, 0.5, 2)
        assert (float(ours), int(tracker)) == (float(theirs), int(growth))


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="max_norm"):
        _prepared(max_norm=1.0)
    with pytest.raises(ValueError, match="scale"):
        _prepared(scale_update=ScaleUpdate(torch.zeros((), dtype=torch.int32)))
