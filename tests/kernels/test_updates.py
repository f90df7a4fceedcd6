"""Every update by its kernel, against the reference in float64: types, sizes, misalignment, overflow, clip, decay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from ampify_runtime.kernels.state import GradStats, ScaleUpdate, StepState
from ampify_runtime.kernels.table import SMALL_TABLE
from torch import Tensor

from tests.kernels.emulation import BACKWARD, FORWARD, SHUFFLED, Emulated, emulated
from tests.kernels.updates import TYPES, UPDATES, Trained, Types, Update, in_float64, kernels

# One, none, below a vector, a vector, one more than a round of vectors, past the first of a round of singles.
SMALL = (1, 0, 7, 8, 2049, 300)
LARGE = (16389, 3, 40007)
# Elements by which gradient, parameter, state and model miss an aligned address.
SHIFTS = {"aligned": (0, 0, 0, 0), "all-off": (1, 1, 1, 1), "grad-off": (3, 0, 0, 0), "model-off": (0, 0, 0, 1)}
# A float32 sum of a step's terms is off by a few roundings; a half type rounds once more.
TOLERANCE = {torch.float32: (4e-6, 4e-7), torch.float16: (1.1e-3, 1e-6), torch.bfloat16: (9e-3, 1e-6)}

MODES = [(update, mode) for update in UPDATES for mode in update.modes]


def _name(value: Any) -> str | None:
    if isinstance(value, Update):
        return f"{value.name}{value.states}"
    if isinstance(value, Types):
        kinds = (value.grad, value.param, value.state, value.model)
        return "-".join(str(kind).removeprefix("torch.") for kind in kinds)
    if isinstance(value, dict):
        return "-".join(f"{key}={setting}" for key, setting in value.items()) or "plain"
    return None


def _assert_close(actual: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(actual, expected, strict=True):
        relative, absolute = TOLERANCE[one.dtype]
        torch.testing.assert_close(one.double(), other, rtol=relative, atol=absolute, equal_nan=True)


# Steps, one after another: the maximal norm (0: no clip), and what one gradient overflows to.
STEPS = ((0.0, None), (0.5, float("inf")), (0.5, None), (0.0, float("nan")), (0.5, None))


@dataclass
class Scale:
    """A loss scale on its way, and the steps that were taken."""

    value: Tensor = field(default_factory=lambda: torch.tensor(64.0))
    tracker: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.int32))
    step: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.int32))


def _train(
    update: Update,
    mode: dict[str, Any],
    types: Types,
    sizes: tuple[int, ...] = SMALL,
    shifts: tuple[int, ...] = SHIFTS["aligned"],
    weight_decay: float = 0.1,
    steps: Sequence[tuple[float, float | None]] = STEPS,
) -> Trained:
    """Train in `steps`, and check each against float64."""
    trained = Trained.made(update, types, sizes, shifts)
    options = update.options(mode, weight_decay)
    state, scale = StepState.on(trained.params[0].device), Scale()
    for number, (max_norm, overflow) in enumerate(steps):
        trained.set_grads(20 + number, float(scale.value), overflow)
        _step(trained, options, state, scale, max_norm, skipped=overflow is not None)
    overflows = sum(overflow is not None for _, overflow in steps)
    assert int(scale.step) == len(steps) - overflows
    assert float(scale.value) == 64.0 / 2**overflows
    return trained


def _step(
    trained: Trained, options: dict[str, Any], state: StepState, scale: Scale, max_norm: float, *, skipped: bool
) -> None:
    expected, before = trained.widened(), trained.copied()
    unscaled = sum(float(grad.double().square().sum()) for grad in trained.grads) ** 0.5 / float(scale.value)
    moves = ScaleUpdate(scale.tracker, growth_interval=1000)
    stats = kernels().grad_stats(trained.grads)
    rates: dict[str, Any] = {"lr": 0.05, "betas": (0.9, 0.99), "bias_correction": True}
    kernels().step_prep(
        state, stats, step=scale.step, scale=scale.value, max_norm=max_norm, scale_update=moves, **rates
    )
    trained.step(state, stats, options, kernels())
    trained.guarded.check()
    assert bool(state.skip) is skipped
    if skipped:
        _assert_untouched(trained, before)
        return
    assert float(state.grad_norm) == pytest.approx(unscaled, rel=1e-5)
    assert float(state.clip) == pytest.approx(min(1.0, max_norm / unscaled) if max_norm else 1.0, rel=1e-4)
    sums = torch.stack([grad.square().sum() for grad in expected.grads])
    expected.step(state, GradStats(sums, stats.found_inf), options, in_float64())
    _assert_close(trained.params, expected.params)
    for kept, wanted in zip(trained.states, expected.states, strict=True):
        _assert_close(kept, wanted)
    if trained.update.name == "novograd":
        _assert_close([trained.grad_norms], [expected.grad_norms])
    if trained.model is not None:
        for copied, param in zip(trained.model, trained.params, strict=True):
            assert torch.equal(copied, param.to(copied.dtype))


def _assert_untouched(after: Trained, before: Trained) -> None:
    for one, other in ((after.params, before.params), (after.model or [], before.model or [])):
        assert all(map(torch.equal, one, other))
    for kept, former in zip(after.states, before.states, strict=True):
        assert all(map(torch.equal, kept, former))
    assert torch.equal(after.grad_norms, before.grad_norms)


# What lies where matters little to types, and types little to that; `make kernels` tries all of both.
LAYOUTS = [(types, SHIFTS["aligned"]) for types in TYPES]
LAYOUTS += [(TYPES[0], SHIFTS[name]) for name in ("all-off", "grad-off", "model-off")]
LAYOUTS += [(TYPES[4], SHIFTS["all-off"])]


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize(("types", "shifts"), LAYOUTS, ids=_name)
@pytest.mark.parametrize(("update", "mode"), MODES, ids=_name)
def test_every_update(update: Update, mode: dict[str, Any], types: Types, shifts: tuple[int, ...]) -> None:
    _train(update, mode, types, shifts=shifts)


@pytest.mark.kernels
@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("shifts", SHIFTS.values(), ids=SHIFTS)
@pytest.mark.parametrize("types", TYPES, ids=_name)
@pytest.mark.parametrize(("update", "mode"), MODES, ids=_name)
def test_every_update_in_every_layout(
    update: Update, mode: dict[str, Any], types: Types, shifts: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    _train(update, mode, types, shifts=shifts, sizes=sizes)


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize(("update", "mode"), MODES, ids=_name)
def test_tensors_of_several_blocks(update: Update, mode: dict[str, Any]) -> None:
    _train(update, mode, TYPES[0], sizes=LARGE, steps=STEPS[2:3])


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize(("update", "mode"), MODES, ids=_name)
def test_without_decay(update: Update, mode: dict[str, Any]) -> None:
    _train(update, mode, TYPES[0], weight_decay=0.0, steps=STEPS[:1])


@pytest.mark.parametrize("order", [BACKWARD, SHUFFLED], ids=["backward", "shuffled"])
@pytest.mark.parametrize("update", UPDATES, ids=_name)
def test_the_order_of_threads_does_not_matter(update: Update, order: int, emulation: Emulated) -> None:
    results = []
    for chosen in (FORWARD, order):
        emulation.run_threads(chosen)
        trained = _train(update, update.modes[0], TYPES[0], sizes=(2049, 16389, 5), steps=STEPS[2:3])
        results.append([*trained.params, *(trained.model or []), *chain(*trained.states)])
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("update", [UPDATES[0], UPDATES[4], UPDATES[5]], ids=_name)
def test_small_tables_and_more_tensors_than_one_holds(update: Update, build_folder: Path) -> None:
    small = emulated(build_folder, table_bytes=SMALL_TABLE)
    before = small.launches
    with small.in_place():
        _train(update, update.modes[0], TYPES[0], sizes=tuple(1 + i % 3 for i in range(130)), steps=STEPS[2:3])
    # 130 tensors of four lists or five take two tables or three.
    assert small.launches - before >= 3 + 2


@pytest.mark.usefixtures("emulation")
def test_gradients_of_several_types_in_one_call() -> None:
    update = UPDATES[0]
    trained = Trained.made(update, Types(torch.float32, torch.float32, torch.float32, None), (5, 9, 300, 8), (0,) * 4)
    trained.set_grads(3, 1.0, None)
    kinds = (torch.float16, torch.float32, torch.bfloat16, torch.float16)
    trained.grads = [grad.to(kind) for grad, kind in zip(trained.grads, kinds, strict=True)]
    options = update.options(update.modes[0], 0.1)
    _step(trained, options, StepState.on(trained.params[0].device), Scale(torch.tensor(1.0)), 0.5, skipped=False)
