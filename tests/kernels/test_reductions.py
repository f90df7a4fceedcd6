"""Norms and gradient statistics by their kernels, against float64."""

from __future__ import annotations

import math

import pytest
import torch
from ampify_runtime.kernels import operations

from tests.kernels.emulation import BACKWARD, FORWARD, SHUFFLED, Emulated
from tests.kernels.memory import Guarded, random_tensors

TYPES = (torch.float16, torch.bfloat16, torch.float32)
SIZES = (0, 1, 7, 2049, 16389, 33001, 0)


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("kind", TYPES)
def test_norms(kind: torch.dtype, shift: int) -> None:
    tensors = Guarded().tensors(random_tensors(SIZES, 1, 3.0), kind, shift)
    norms, stats, largest = operations.l2norm(tensors), operations.grad_stats(tensors), operations.max_norms(tensors)
    exact = torch.stack([tensor.double().norm() for tensor in tensors])
    torch.testing.assert_close(norms.each.double(), exact, rtol=2e-6, atol=0)
    torch.testing.assert_close(norms.total.double(), exact.norm(), rtol=2e-6, atol=0)
    torch.testing.assert_close(stats.sums.double(), exact.square(), rtol=4e-6, atol=0)
    assert float(stats.found_inf) == 0.0
    assert largest.tolist() == [float(tensor.abs().max()) if tensor.numel() else 0.0 for tensor in tensors]


@pytest.mark.usefixtures("emulation")
def test_types_may_be_mixed_and_results_keep_their_places() -> None:
    kinds = [TYPES[i % 3] for i in range(12)]
    tensors = [torch.full((3 + i,), i + 1.0, dtype=kind) for i, kind in enumerate(kinds)]
    expected = [math.sqrt(3 + i) * (i + 1.0) for i in range(12)]
    assert operations.l2norm(tensors).each.tolist() == pytest.approx(expected, rel=1e-6)
    assert operations.max_norms(tensors).tolist() == [i + 1.0 for i in range(12)]


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("tensor", "element"), [(1, 0), (4, 16388), (5, 17000)])
def test_whatever_is_not_finite_is_found(kind: torch.dtype, bad: float, tensor: int, element: int) -> None:
    grads = [value.to(kind) for value in random_tensors(SIZES, 1)]
    grads[tensor][element] = bad
    assert float(operations.grad_stats(grads).found_inf) == 1.0


@pytest.mark.usefixtures("emulation")
def test_a_sum_that_overflows_is_no_overflow_of_gradients() -> None:
    stats = operations.grad_stats([torch.full((4,), 1e30)])
    assert stats.sums.tolist() == [float("inf")]
    assert float(stats.found_inf) == 0.0


@pytest.mark.usefixtures("emulation")
def test_float16_does_not_overflow_in_its_squares() -> None:
    assert float(operations.l2norm([torch.full((10_000,), 60000.0, dtype=torch.float16)]).total) == pytest.approx(6e6)


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("place", [0, 40, 299])
def test_a_nan_is_the_largest(place: int) -> None:
    tensor = torch.arange(300.0)
    tensor[place] = float("nan")
    result = operations.max_norms([torch.ones(2), tensor])
    assert float(result[0]) == 1.0
    assert bool(result[1].isnan())


def test_sums_do_not_depend_on_the_order_of_threads(emulation: Emulated) -> None:
    tensors = [value.float() for value in random_tensors((16389, 255, 40001), 4)]
    results = []
    for order in (FORWARD, BACKWARD, SHUFFLED, SHUFFLED + 1):
        emulation.run_threads(order)
        results.append(operations.l2norm(tensors).each)
    assert all(torch.equal(results[0], other) for other in results[1:])


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("name", ["l2norm", "max_norms", "grad_stats"])
def test_no_tensors_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        getattr(operations, name)([])
