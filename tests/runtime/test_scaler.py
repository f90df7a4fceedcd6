"""The loss scale, moved by Python and by the device in turn, against torch's GradScaler."""

from __future__ import annotations

import random

import pytest
import torch
from ampify_runtime._core import scaler as scaler_module
from ampify_runtime._core.policy import Scaling
from ampify_runtime._core.scaler import LossScaler

CPU = torch.device("cpu")


def dynamic(initial: float) -> LossScaler:
    return LossScaler(Scaling(dynamic=True, initial=initial, lowest=0.0, highest=float("inf")))


def step(scaler: LossScaler, overflowed: bool, on_device: bool) -> None:
    scaler.note(torch.tensor(float(overflowed)))
    if on_device:
        scaler.decide_on_device()
    else:
        scaler.decide(overflowed)


@pytest.mark.parametrize("initial", [65536.0, 1000.1, 2.0**126])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_it_moves_as_grad_scaler_does(initial: float, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaler_module, "GROWTH_INTERVAL", 3)
    ours = dynamic(initial)
    ours.scale_on(CPU)
    theirs = torch.amp.GradScaler("cpu", init_scale=initial, growth_interval=3)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    draw = random.Random(1)
    for _ in range(60):
        overflowed = draw.random() < 0.15
        theirs.scale(torch.zeros(()))
        parameter.grad = torch.tensor([float("inf") if overflowed else 0.0])
        theirs.step(optimizer)
        theirs.update()
        step(ours, overflowed, on_device=draw.random() < share)
        assert ours.value == theirs.get_scale()
        assert float(ours.scale_on(CPU)) == theirs.get_scale()
        assert ours.clean_steps == theirs.state_dict()["_growth_tracker"]


@pytest.mark.parametrize("on_device", [False, True])
def test_what_a_block_began_with_stays(on_device: bool) -> None:
    scaler = dynamic(8.0)
    for expected in (8.0, 4.0, 2.0):
        kept = scaler.scale_to_keep(CPU)
        step(scaler, overflowed=True, on_device=on_device)
        assert (float(kept), scaler.value) == (expected, expected / 2)


def test_the_device_goes_on_where_it_is() -> None:
    """A captured step is played again with the addresses it was captured with."""
    scaler = dynamic(8.0)
    scaler.scale_on(CPU)
    step(scaler, overflowed=True, on_device=True)
    place = scaler.scale_on(CPU).data_ptr()
    for _ in range(3):
        # To read it, as logs do, moves it nowhere.
        assert scaler.value == scaler.state_dict()["loss_scale"]
        step(scaler, overflowed=True, on_device=True)
        assert scaler.scale_on(CPU).data_ptr() == place
    assert scaler.value == 0.5
