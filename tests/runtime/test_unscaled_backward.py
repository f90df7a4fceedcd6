"""A backward outside of `scale_loss`: refused by the step that would take its gradients, named, and no false alarm."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn
from torch.nn import functional as F

from .training import X, backward, make_mlp

MODES: dict[str, dict[str, Any]] = {
    "O0": {"opt_level": "O0", "loss_scale": "dynamic"},
    "O1": {"opt_level": "O1"},
    "O2": {"opt_level": "O2"},
    "O3": {"opt_level": "O3", "loss_scale": "128.0"},
}


@pytest.fixture(params=sorted(MODES))
def parts(request: pytest.FixtureRequest, float16: torch.dtype) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = make_mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    amp.initialize(model, optimizer, verbosity=0, **MODES[request.param])
    return model, optimizer


@pytest.fixture
def silence() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def unscaled(model: nn.Module) -> int:
    """Answers the line of the backward."""
    loss = model(X).float().square().mean()
    loss.backward()
    return sys._getframe().f_lineno - 1


def refused(line: int) -> Any:
    return pytest.raises(RuntimeError, match=rf"SGD\.step: .*amp\.scale_loss \({__file__}:{line}\)")


class TestRefused:
    def test_alone(self, parts: Any) -> None:
        model, optimizer = parts
        line = unscaled(model)
        with refused(line):
            optimizer.step()

    def test_before_a_scaled_one(self, parts: Any) -> None:
        model, optimizer = parts
        line = unscaled(model)
        backward(model, optimizer)
        with refused(line):
            optimizer.step()

    def test_after_a_scaled_one(self, parts: Any) -> None:
        model, optimizer = parts
        backward(model, optimizer)
        line = unscaled(model)
        with refused(line):
            optimizer.step()

    def test_in_a_closure(self, parts: Any) -> None:
        model, optimizer = parts
        with refused(unscaled.__code__.co_firstlineno + 3):
            optimizer.step(lambda: unscaled(model))

    def test_until_it_is_zeroed(self, parts: Any) -> None:
        model, optimizer = parts
        line = unscaled(model)
        for _ in range(2):
            with refused(line):
                optimizer.step()
        model.zero_grad()
        optimizer.zero_grad()
        backward(model, optimizer)
        optimizer.step()

    @pytest.mark.parametrize("wrap", [lambda t: {"a": [t]}, lambda t: (1, t), "dataclass"])
    def test_through_any_output(self, wrap: Any, float16: torch.dtype) -> None:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = make_mlp()

            def forward(self, x: torch.Tensor) -> Any:
                out = self.net(x)
                return Wrapped(out) if wrap == "dataclass" else wrap(out)

        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        amp.initialize(model, optimizer, verbosity=0)
        out = model(X)
        tensor = out["a"][0] if isinstance(out, dict) else out[1] if isinstance(out, tuple) else out.tensor
        tensor.float().sum().backward()
        with pytest.raises(RuntimeError, match=r"a backward outside of amp\.scale_loss"):
            optimizer.step()


@dataclasses.dataclass
class Wrapped:
    tensor: torch.Tensor


@pytest.mark.usefixtures("silence")
class TestNoFalseAlarm:
    @pytest.mark.parametrize("set_to_none", [True, False])
    @pytest.mark.parametrize("inside", [True, False])
    def test_adversarial_examples_whose_gradients_are_zeroed(self, parts: Any, set_to_none: bool, inside: bool) -> None:
        model, optimizer = parts
        for _ in range(3):
            x = X.clone().requires_grad_()
            model(x).float().square().mean().backward()
            assert x.grad is not None
            loss = model(X + 0.1 * x.grad.sign()).float().square().mean()
            if not inside:
                optimizer.zero_grad(set_to_none=set_to_none)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                if inside:
                    optimizer.zero_grad(set_to_none=set_to_none)
                scaled_loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=set_to_none)

    def test_gradients_of_inputs(self, parts: Any) -> None:
        model, optimizer = parts
        for _ in range(2):
            optimizer.zero_grad()
            backward(model, optimizer)
            x = X.clone().requires_grad_()
            torch.autograd.grad(model(x).float().sum(), x)
            nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1e-3)
            optimizer.step()

    def test_gradient_penalty(self, parts: Any) -> None:
        model, optimizer = parts
        for _ in range(2):
            optimizer.zero_grad()
            x = X.clone().requires_grad_()
            out = model(x).float()
            (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
            loss = out.square().mean() + (gradient.float().norm(dim=1) - 1).square().mean()
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()

    def test_another_model_s_backward(self, parts: Any) -> None:
        model, optimizer = parts
        other = make_mlp()
        backward(model, optimizer)
        (other(X).float().mean() + model(X).detach().float().mean()).backward()
        optimizer.step()

    def test_blocks_one_after_another(self, parts: Any) -> None:
        model, optimizer = parts
        for _ in range(3):
            backward(model, optimizer)
            backward(model, optimizer)
            optimizer.step()
            optimizer.zero_grad()

    def test_a_backward_that_raises(self, parts: Any) -> None:
        model, optimizer = parts
        loss = model(X).float().square().mean()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        optimizer.zero_grad()
        model.zero_grad()
        backward(model, optimizer)
        optimizer.step()

    def test_levels_that_do_not_scale(self) -> None:
        for level in ("O0", "O4", "O5"):
            model = make_mlp()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            amp.initialize(model, optimizer, opt_level=level, verbosity=0)
            unscaled(model)
            optimizer.step()


PLAIN = """
import torch
from ampify_runtime import amp
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
loss = model(torch.ones(1, 4)).sum()
torch.autograd.backward(loss)
try:
    optimizer.step()
except RuntimeError as error:
    print(error)
"""


def test_the_line_is_the_script_s(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PLAIN)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"({script}:8)" in done.stdout


def test_functional_transforms_go_through(float16: torch.dtype) -> None:
    model = make_mlp()
    amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.01), verbosity=0)
    parameters = dict(model.named_parameters())

    def loss(parameters: Any, x: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(torch.func.functional_call(model, parameters, (x,)).float(), torch.zeros(3))

    grads = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, X)
    assert grads["0.weight"].shape == (2, 16, 8)
