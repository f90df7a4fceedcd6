"""Fused optimizers under amp with emulated kernels: overflow, clip and scale are the device's business, nobody waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from ampify_runtime._core import ambient, enrolment, notices, scalers
from ampify_runtime.optimizers import FusedAdagrad, FusedAdam, FusedLAMB, FusedNovoGrad, FusedSGD
from torch import nn
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from tests.kernels.emulation import FORWARD, Emulated

MAKERS: dict[str, Callable[[Any], Any]] = {
    "adam": lambda p: FusedAdam(p, lr=0.01, weight_decay=0.1),
    "adam, capturable": lambda p: FusedAdam(p, lr=0.01, weight_decay=0.1, capturable=True),
    "sgd": lambda p: FusedSGD(p, lr=0.1, momentum=0.9, dampening=0.1),
    "lamb": lambda p: FusedLAMB(p, lr=0.01),
    "novograd": lambda p: FusedNovoGrad(p, lr=0.1, weight_decay=0.1),
    "adagrad": lambda p: FusedAdagrad(p, lr=0.05),
}
# Whose first step is what starts an average: it is waited for.
WAITS_FIRST = {"sgd", "novograd"}
OVERFLOWS = (2, 3, 6)
STEPS = 8


class HostReads(TorchDispatchMode):
    """Counts what would wait for a GPU: a value, a comparison or a number of elements that Python gets to see."""

    WAITING = ("_local_scalar_dense", "equal", "nonzero", "masked_select", "is_nonzero", "item")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.overloadpacket.__name__ in self.WAITING:
            self.found.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AMPIFY_DTYPE", "float16")
    yield
    enrolment.forget_enrolments()
    scalers.forget_scalers()
    ambient.withdraw()
    notices.forget_what_was_said()


def train(name: str, level: str, counted: HostReads | None = None) -> tuple[nn.Module, Optimizer, list[int]]:
    """Some steps, of which OVERFLOWS are skipped; how many values each of them had Python read, if that is counted."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = MAKERS[name](model.parameters())
    # Masters then have no gradients of their own: the step takes the model's.
    optimizer.materialize_master_grads = False
    amp.initialize(model, optimizer, opt_level=level, loss_scale="dynamic")
    reads = []
    for step in range(STEPS):
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss = model(x).float().square().mean()
        before = len(counted.found) if counted else 0
        with counted or nullcontext():
            with amp.scale_loss(loss * float("inf") if step in OVERFLOWS else loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.1) if level == "O1" else None
            optimizer.step()
        reads.append(len(counted.found) - before if counted else 0)
    return model, optimizer, reads


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("name", list(MAKERS))
def test_steps_read_nothing_and_end_as_steps_that_do(name: str, level: str, session_emulated: Emulated) -> None:
    session_emulated.run_threads(FORWARD)
    expected, expecting, _ = train(name, level)
    state, scale = expecting.state_dict(), amp.state_dict()
    enrolment.forget_enrolments()
    scalers.forget_scalers()
    with session_emulated.in_place():
        before = session_emulated.launches
        model, optimizer, reads = train(name, level, HostReads())
        assert session_emulated.launches > before
    waited = [step for step, count in enumerate(reads) if count]
    assert waited == ([0] if name in WAITS_FIRST else [])
    assert amp.state_dict() == scale == {"loss_scaler0": {"loss_scale": 2.0**13, "unskipped": 1}}
    for left, right in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(left.float(), right.float(), rtol=2e-3, atol=1e-5)
    steps = [entry.get("step") for entry in optimizer.state_dict()["state"].values()]
    assert [step and int(step) for step in steps] == [
        entry.get("step") and int(entry["step"]) for entry in state["state"].values()
    ]
    if "step" in state["param_groups"][0]:
        assert int(optimizer.state_dict()["param_groups"][0]["step"]) == STEPS - len(OVERFLOWS)


def test_the_counter_sees_a_step_that_waits(session_emulated: Emulated) -> None:
    _, _, reads = train("adam", "O1", HostReads())
    assert all(reads)


def test_a_skipped_step_is_told_of_later(session_emulated: Emulated, caplog: pytest.LogCaptureFixture) -> None:
    with session_emulated.in_place(), caplog.at_level(logging.WARNING, "ampify"):
        train("adam", "O1")
    said = [record.getMessage() for record in caplog.records if "is skipped" in record.getMessage()]
    assert [message.rsplit(" ", 1)[1] for message in said] == ["32768", "16384", "8192"]


def test_counts_on_the_device_are_copied_saved_and_gone_on_from(session_emulated: Emulated) -> None:
    with session_emulated.in_place():
        _, optimizer, _ = train("adam", "O1")
        saved = optimizer.state_dict()
    assert {entry["step"] for entry in saved["state"].values()} == {STEPS - len(OVERFLOWS)}
    parameters = [nn.Parameter(torch.zeros_like(p)) for p in optimizer.param_groups[0]["params"]]
    fresh = MAKERS["adam"](parameters)
    fresh.load_state_dict(saved)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    fresh.step()
    assert fresh.param_groups[0]["step"] == STEPS - len(OVERFLOWS) + 1
