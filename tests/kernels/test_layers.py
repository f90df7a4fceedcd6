"""LayerNorm and RMSNorm by their kernels, forward and backward, against torch's autograd in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from ampify_runtime.kernels import operations
from torch import Tensor

from tests.kernels.emulation import BACKWARD, Emulated

HALF, BFLOAT, FLOAT = torch.float16, torch.bfloat16, torch.float32
TYPES = [(HALF, FLOAT, FLOAT), (BFLOAT, FLOAT, BFLOAT), (FLOAT, HALF, FLOAT), (HALF, BFLOAT, HALF)]
SHAPES = [(5, 7), (3, 8), (2, 3, 264), (70, 1), (1, 2051), (0, 4)]
EPSILON = 1e-3


def _tolerance(kind: torch.dtype) -> dict[str, float]:
    # Sums over a row of a thousand are off by some roundings of float32.
    return {"rtol": max(2 * torch.finfo(kind).eps, 1e-5), "atol": 2e-5}


def _random(shape: tuple[int, ...], kind: torch.dtype, seed: int, around: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) + around).to(kind)


def _exact_rms(x: Tensor, weight: Tensor | None) -> Tensor:
    y = x / (x.square().mean(-1, keepdim=True) + EPSILON).sqrt()
    return y if weight is None else y * weight


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.double().requires_grad_()


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("affine", ["both", "weight", "none"])
@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layer_norm(shape: tuple[int, ...], types: tuple[torch.dtype, ...], affine: str) -> None:
    of_input, of_weight, of_output = types
    columns = shape[-1:]
    x = _random(shape, of_input, 1, around=3.0)
    weight = None if affine == "none" else _random(columns, of_weight, 2, around=1.0)
    bias = _random(columns, of_weight, 3) if affine == "both" else None
    grad = _random(shape, of_output, 4)
    output, mean, rstd = operations.layer_norm(x, columns, weight, bias, EPSILON, of_output)
    wide = [None if tensor is None else _leaf(tensor) for tensor in (x, weight, bias)]
    exact = F.layer_norm(wide[0], columns, wide[1], wide[2], EPSILON)  # type: ignore[arg-type]
    assert output.dtype == of_output
    torch.testing.assert_close(output.double(), exact.detach(), **_tolerance(of_output))
    exact.backward(grad.double())
    grads = operations.layer_norm_backward(grad, x, columns, mean, rstd, weight, bias)
    _assert_grads(grads, [x, weight, bias], wide)


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("with_weight", [True, False])
@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rms_norm(shape: tuple[int, ...], types: tuple[torch.dtype, ...], with_weight: bool) -> None:
    of_input, of_weight, of_output = types
    columns = shape[-1:]
    x, grad = _random(shape, of_input, 1, around=1.0), _random(shape, of_output, 4)
    weight = _random(columns, of_weight, 2, around=1.0) if with_weight else None
    output, rstd = operations.rms_norm(x, columns, weight, EPSILON, of_output)
    wide = [None if tensor is None else _leaf(tensor) for tensor in (x, weight)]
    exact = _exact_rms(wide[0], wide[1])  # type: ignore[arg-type]
    torch.testing.assert_close(output.double(), exact.detach(), **_tolerance(of_output))
    exact.backward(grad.double())
    _assert_grads(operations.rms_norm_backward(grad, x, columns, rstd, weight), [x, weight], wide)


def _assert_grads(grads: tuple[Tensor | None, ...], tensors: list[Tensor | None], exact: list[Tensor | None]) -> None:
    for grad, tensor, leaf in zip(grads, tensors, exact, strict=True):
        if tensor is None or grad is None or leaf is None:
            assert grad is None
            assert tensor is None
            continue
        assert (grad.dtype, grad.shape) == (tensor.dtype, tensor.shape)
        wanted = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        torch.testing.assert_close(grad.double(), wanted, **_tolerance(tensor.dtype))


@pytest.mark.usefixtures("emulation")
def test_rows_far_from_zero_keep_their_digits() -> None:
    x = _random((4, 300), FLOAT, 1) + 10_000.0
    output, _, _ = operations.layer_norm(x, (300,), torch.ones(300, dtype=HALF), None, 0.0, FLOAT)
    # A float32 mean of 10,000 is off by 0.0005 as it is; a difference of squares would leave nothing.
    torch.testing.assert_close(output.double(), F.layer_norm(x.double(), (300,), eps=0.0), rtol=0, atol=3e-3)


@pytest.mark.usefixtures("emulation")
def test_strided_inputs_and_several_dimensions() -> None:
    x = _random((4, 6, 5), HALF, 1).transpose(0, 1)
    weight = _random((4, 5), FLOAT, 2)
    output, _, _ = operations.layer_norm(x, (4, 5), weight, None, EPSILON, FLOAT)
    exact = F.layer_norm(x.double(), (4, 5), weight.double(), None, EPSILON)
    torch.testing.assert_close(output.double(), exact, **_tolerance(FLOAT))


def test_many_rows_in_any_order_of_threads(emulation: Emulated) -> None:
    x, grad = _random((200, 3), HALF, 1), _random((200, 3), FLOAT, 2)
    weight, bias = _random((3,), FLOAT, 3), _random((3,), FLOAT, 4)
    results = []
    for order in (0, BACKWARD):
        emulation.run_threads(order)
        _, mean, rstd = operations.layer_norm(x, (3,), weight, bias, EPSILON, FLOAT)
        results.append(operations.layer_norm_backward(grad, x, (3,), mean, rstd, weight, bias))
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True) if one is not None)
    assert results[0][2] is not None
    torch.testing.assert_close(results[0][2].double(), grad.double().sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("emulation")
def test_a_shape_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(4,\).*\(2, 5\)"):
        operations.layer_norm(torch.ones(2, 5), (4,), None, None, EPSILON, FLOAT)
