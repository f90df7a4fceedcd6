"""Loss scales in checkpoints: written as apex wrote them, read from ours and apex's, early or late."""

from __future__ import annotations

import io
import warnings
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch.nn import functional as F

from .training import assert_same, make_batches, make_net, weights_of


def start(**keywords: Any) -> tuple[Any, torch.optim.Optimizer]:
    model = make_net("conv")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    amp.initialize(model, optimizer, **({"verbosity": 0} | keywords))
    return model, optimizer


def train(model: Any, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step, (inputs, target) in enumerate(make_batches(steps.stop, 1, 8, 8)):
        if step not in steps:
            continue
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), target) * (float("inf") if step in (1, 6) else 1.0)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()


def test_training_resumes_bit_for_bit(float16: torch.dtype) -> None:
    model, optimizer = start()
    train(model, optimizer, range(4))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, file)
    train(model, optimizer, range(4, 8))
    expected = [*weights_of(model), torch.tensor(amp.loss_scale())]

    file.seek(0)
    checkpoint = torch.load(file, weights_only=True)
    model, optimizer = start()
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    amp.load_state_dict(checkpoint["amp"])
    train(model, optimizer, range(4, 8))
    assert_same([*weights_of(model), torch.tensor(amp.loss_scale())], expected)


def test_what_is_saved(float16: torch.dtype) -> None:
    model, optimizer = start(num_losses=2)
    train(model, optimizer, range(4))
    scale = amp.loss_scale()
    assert scale < 65536.0
    state = amp.state_dict()
    assert state == {
        "loss_scaler0": {"loss_scale": scale, "unskipped": 2},
        "loss_scaler1": {"loss_scale": 65536.0, "unskipped": 0},
    }


def test_nothing_is_saved_without_initialize() -> None:
    assert amp.state_dict() == {}
    assert amp.loss_scale() == 1.0


@pytest.mark.parametrize(("level", "scale"), [("O0", 1.0), ("O4", 1.0)])
def test_what_is_saved_without_scaling(level: str, scale: float) -> None:
    start(opt_level=level)
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": scale, "unskipped": 0}}


APEX = {"loss_scaler0": {"loss_scale": 4096.0, "unskipped": 37}}


def test_apex_s_checkpoints_are_read(float16: torch.dtype) -> None:
    start()
    amp.load_state_dict(APEX)
    assert amp.loss_scale() == 4096.0
    assert amp.state_dict() == APEX


def test_a_state_loaded_before_initialize_is_kept_for_it(float16: torch.dtype) -> None:
    amp.load_state_dict(APEX)
    start()
    assert amp.state_dict() == APEX


def test_a_state_loaded_between_two_initializations_stays(float16: torch.dtype) -> None:
    start()
    amp.load_state_dict(APEX)
    start()
    assert amp.state_dict() == APEX


def test_a_run_that_scales_nothing_passes_the_scale_on() -> None:
    """A checkpoint from a GPU, gone on with on a CPU, is to go on with its scale on the GPU again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start()
    amp.load_state_dict(APEX)
    assert amp.loss_scale() == 1.0
    assert amp.state_dict() == APEX


@pytest.mark.parametrize(
    "keywords", [{"opt_level": "O0"}, {"opt_level": "O4"}, {"opt_level": "O4", "loss_scale": 128.0}]
)
def test_a_scale_that_was_chosen_is_not_overridden(keywords: dict[str, Any]) -> None:
    start(**keywords)
    before = amp.loss_scale()
    amp.load_state_dict(APEX)
    assert amp.loss_scale() == before


def test_a_checkpoint_without_scaling_does_not_stop_dynamic_scaling(float16: torch.dtype) -> None:
    start()
    with pytest.warns(amp.AmpWarning, match=r"written without loss scaling .* starts at 65536\.0"):
        amp.load_state_dict({"loss_scaler0": {"loss_scale": 1.0, "unskipped": 12}})
    assert amp.loss_scale() == 65536.0


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_scalers_is_warned_of(count: int, float16: torch.dtype) -> None:
    start(num_losses=2)
    state = {f"loss_scaler{i}": {"loss_scale": 2.0**i * 8, "unskipped": i} for i in range(count)}
    with pytest.warns(amp.AmpWarning, match=f"has {count} loss scalers, amp.initialize made 2"):
        amp.load_state_dict(state)
    assert (amp.loss_scale(0), amp.loss_scale(1)) == (8.0, 65536.0 if count == 1 else 16.0)


def test_scalers_are_matched_by_number_beyond_ten(float16: torch.dtype) -> None:
    start(num_losses=11)
    amp.load_state_dict(
        {f"loss_scaler{i}": {"loss_scale": 2.0 ** (i + 1), "unskipped": 0} for i in reversed(range(11))}
    )
    assert [amp.loss_scale(i) for i in range(11)] == [2.0 ** (i + 1) for i in range(11)]


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (None, TypeError, r"got NoneType; pass what amp\.state_dict\(\) returned"),
        ({"model": {}, "amp": APEX}, ValueError, r"unexpected key 'model'; .* checkpoint\[\"amp\"\]"),
        ({"loss_scaler0": {"scale": 4.0}}, ValueError, r"\{'scale': 4\.0\} is no scaler's state"),
    ],
)
@pytest.mark.parametrize("initialized", [True, False])
def test_what_is_no_state_is_refused(state: Any, error: Any, message: str, initialized: bool) -> None:
    if initialized:
        start(opt_level="O4")
    with pytest.raises(error, match=message):
        amp.load_state_dict(state)


def test_an_empty_state_says_nothing_before_initialize_and_warns_after(float16: torch.dtype) -> None:
    amp.load_state_dict({})
    with pytest.warns(amp.AmpWarning, match="has 0 loss scalers"):
        start()
    assert amp.loss_scale() == 65536.0
