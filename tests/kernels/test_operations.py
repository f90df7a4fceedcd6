"""The contract: the same functions thrice, what tensors they take, and what is said where kernels cannot be used."""

from __future__ import annotations

import inspect
import subprocess
import sys
import warnings

import pytest
import torch
from ampify_runtime.kernels import cuda, operations, reference
from ampify_runtime.kernels.state import StepState

from tests.kernels.emulation import Emulated, emulated
from tests.kernels.memory import random_tensors

FUNCTIONS = [name for name in operations.__all__ if name.islower() and name != "usable"]
BETAS = {"betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1, "decoupled": True}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_and_reference_have_the_operations_parameters(name: str) -> None:
    of_contract = list(inspect.signature(getattr(operations, name)).parameters.values())
    for carrier in (cuda, reference):
        found = list(inspect.signature(getattr(carrier, name)).parameters.values())
        assert [(each.name, each.kind) for each in found] == [(each.name, each.kind) for each in of_contract]


def _adam(grads: list[torch.Tensor], params: list[torch.Tensor], state: StepState | None = None) -> None:
    moments = [[torch.zeros_like(param) for param in params] for _ in range(2)]
    if state is None:
        state = StepState.on(params[0].device)
        operations.step_prep(state, lr=0.1, step=1, betas=(0.9, 0.99), bias_correction=True)
    operations.adam(grads, params, moments[0], moments[1], state, model_params=None, **BETAS)  # type: ignore[arg-type]


def _both(grads: list[torch.Tensor], params: list[torch.Tensor], emulation: Emulated, *, by_kernel: bool) -> None:
    """The operation on `params` and the reference on copies of them agree; whether a kernel was launched for it."""
    copies = [param.clone() for param in params]
    state = StepState.on(params[0].device)
    operations.step_prep(state, lr=0.1, step=1, betas=(0.9, 0.99), bias_correction=True)
    before = emulation.launches
    _adam(grads, params, state)
    assert (emulation.launches > before) is by_kernel
    moments = [[torch.zeros_like(copy) for copy in copies] for _ in range(2)]
    reference.adam(grads, copies, *moments, state, model_params=None, **BETAS)  # type: ignore[arg-type]
    for param, copy in zip(params, copies, strict=True):
        torch.testing.assert_close(param, copy, rtol=1e-5, atol=1e-6)


def _image(seed: int) -> torch.Tensor:
    return random_tensors([2 * 3 * 4 * 5], seed)[0].float().view(2, 3, 4, 5)


def test_channels_last_goes_to_the_kernels(emulation: Emulated) -> None:
    last = torch.channels_last
    _both([_image(1).to(memory_format=last)], [_image(2).to(memory_format=last)], emulation, by_kernel=True)


def test_a_gradient_of_another_layout_is_put_right(emulation: Emulated) -> None:
    _both([_image(1)], [_image(2).to(memory_format=torch.channels_last)], emulation, by_kernel=True)
    _both([torch.ones(()).expand(2, 3, 4, 5)], [_image(2)], emulation, by_kernel=True)


def test_parameters_with_gaps_go_to_the_reference(emulation: Emulated) -> None:
    _both([_image(1)], [torch.zeros(2, 3, 4, 10)[..., ::2] + _image(2)], emulation, by_kernel=True)
    gaps = torch.zeros(2, 3, 4, 10)[..., ::2]
    gaps.copy_(_image(2))
    _both([_image(1)], [gaps], emulation, by_kernel=False)


def test_float64_goes_to_the_reference(emulation: Emulated) -> None:
    _both([_image(1).double()], [_image(2).double()], emulation, by_kernel=False)


def test_a_negated_view_is_what_it_shows(emulation: Emulated) -> None:
    grad = torch._neg_view(_image(1))
    assert grad.is_neg()
    _both([grad], [_image(2)], emulation, by_kernel=True)


def test_a_parameter_that_is_a_subclass(emulation: Emulated) -> None:
    class Tagged(torch.nn.Parameter):
        pass

    with torch.no_grad():
        _both([_image(1)], [Tagged(_image(2))], emulation, by_kernel=True)


@pytest.mark.usefixtures("emulation")
def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="lengths"):
        operations.scale([torch.ones(2)], [], 1.0)
    with pytest.raises(ValueError, match=r"at 1 have different shapes: \(3,\) and \(4,\)"):
        operations.scale([torch.ones(2), torch.ones(3)], [torch.ones(2), torch.ones(4)], 1.0)
    with pytest.raises(ValueError, match="several devices"):
        operations.scale([torch.ones(2)], [torch.ones(2, device="meta")], 1.0)
    with pytest.raises(TypeError, match="sparse"):
        operations.grad_stats([torch.ones(3, 3).to_sparse()])
    with pytest.raises(ValueError, match="momentum"):
        operations.sgd([], [], None, StepState.on(torch.device("cpu")), momentum=0.9)


@pytest.mark.usefixtures("emulation")
def test_nothing_to_do_is_done() -> None:
    _adam([], [torch.ones(0)][:0], StepState.on(torch.device("cpu")))
    _adam([torch.ones(0)], [torch.ones(0)])


def test_a_variant_that_does_not_compile_falls_back_with_one_warning(
    build_folder: object, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr("ampify_runtime.kernels.fallback._said", [])
    broken = emulated(
        tmp_path_factory.mktemp("broken"), edits=(("adam.cu", "const float p = x[1];", "const float p ="),)
    )
    with broken.in_place(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = broken.launches
        for _ in range(3):
            _both([_image(1)], [_image(2)], broken, by_kernel=False)
    assert broken.launches - before == 3, "step_prep compiles, and is launched"
    assert [warning.filename for warning in caught] == [__file__]
    assert "adam grad=float32" in str(caught[0].message)
    assert "g++ refused" in str(caught[0].message)


def test_a_launch_that_fails_is_an_error(emulation: Emulated) -> None:
    emulation.fail("cuLaunchKernel", 700)
    with pytest.raises(RuntimeError, match=r"cuLaunchKernel failed: stand-in failure 700"):
        operations.scale([torch.ones(2)], [torch.ones(2)], 1.0)


def test_every_call_leaves_the_context_as_it_was(emulation: Emulated) -> None:
    operations.scale([torch.ones(2)], [torch.ones(2)], 1.0)
    assert emulation.controls.stand_in_depth() == 0


def test_on_a_cpu_nothing_is_said() -> None:
    program = (
        "import torch; from ampify_runtime.kernels import operations as o;"
        "o.scale([torch.ones(3)], [torch.ones(3)], 2.0);"
        "found = o.usable(torch.device('cpu')); print(bool(found), found.reason)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False cpu tensors have no CUDA kernels\n", "")
