"""scale and axpby by their kernels, against float64: types, misalignment, where factors come from, what is checked."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from ampify_runtime.kernels import operations
from ampify_runtime.kernels.operations.elementwise import Checked
from torch import Tensor

from tests.kernels.memory import Guarded, random_tensors

TYPES = (torch.float16, torch.bfloat16, torch.float32)
SIZES = (1, 0, 8, 2049, 77)
pytestmark = pytest.mark.usefixtures("emulation")


def _assert_rounded(actual: list[Tensor], exact: list[Tensor]) -> None:
    """A float32 result, rounded once; where float64 and float32 fall on two sides of a tie, the neighbour."""
    for one, other in zip(actual, exact, strict=True):
        epsilon = torch.finfo(one.dtype).eps
        torch.testing.assert_close(one.double(), other, rtol=epsilon, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize(("source", "to"), list(product(TYPES, TYPES)))
def test_scale(source: torch.dtype, to: torch.dtype, shift: int) -> None:
    guarded, found_inf = Guarded(), torch.zeros((), dtype=torch.float32)
    inputs = guarded.tensors(random_tensors(SIZES, 1), source, shift)
    outputs = guarded.tensors(random_tensors(SIZES, 2), to)
    operations.scale(inputs, outputs, 0.3, found_inf)
    _assert_rounded(outputs, [tensor.double() * 0.3 for tensor in inputs])
    assert float(found_inf) == 0.0
    guarded.check()


@pytest.mark.parametrize("kind", [torch.float32, torch.int32])
@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(("tensor", "element"), [(0, 0), (3, 2048), (4, 76)])
def test_scale_finds_what_is_not_finite(kind: torch.dtype, bad: float, tensor: int, element: int) -> None:
    found_inf = torch.zeros(1, dtype=kind)
    inputs = [value.half() for value in random_tensors(SIZES, 1)]
    inputs[tensor][element] = bad
    operations.scale(inputs, inputs, torch.tensor(2.0), found_inf)
    assert found_inf.tolist() == [1]


def test_a_result_that_overflows_is_no_overflow_of_the_input() -> None:
    found_inf, output = torch.zeros(1), torch.zeros(9, dtype=torch.float16)
    operations.scale([torch.full((9,), 60000.0)], [output], 2.0, found_inf)
    assert bool(output.isinf().all())
    assert float(found_inf) == 0.0


@pytest.mark.parametrize("types", [TYPES, TYPES[::-1], (TYPES[2],) * 3, (TYPES[0], TYPES[0], TYPES[2])], ids=str)
@pytest.mark.parametrize("shift", [0, 1])
def test_axpby(types: tuple[torch.dtype, torch.dtype, torch.dtype], shift: int) -> None:
    guarded = Guarded()
    xs, ys, outputs = (guarded.tensors(random_tensors(SIZES, i), kind, shift) for i, kind in enumerate(types))
    operations.axpby(xs, ys, outputs, 0.3, torch.tensor([-1.7]))
    exact = [0.3 * x.double() - 1.7 * y.double() for x, y in zip(xs, ys, strict=True)]
    for one, other in zip(outputs, exact, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=torch.finfo(one.dtype).eps, atol=1e-6)
    guarded.check()


@pytest.mark.parametrize("checked", Checked)
@pytest.mark.parametrize("bad", ["x", "y"])
def test_axpby_checks_what_it_is_told_to(checked: Checked, bad: str) -> None:
    lists = {name: [torch.ones(300)] for name in ("x", "y")}
    lists[bad][0][299] = float("inf")
    found_inf = torch.zeros(1, dtype=torch.int32)
    operations.axpby(lists["x"], lists["y"], [torch.empty(300)], 1.0, 1.0, found_inf, checked)
    sees = {Checked.BOTH: "xy", Checked.X: "x", Checked.Y: "y"}[checked]
    assert bool(found_inf) is (bad in sees)


def test_every_half_reads_and_writes_as_torch_has_it() -> None:
    bits = torch.arange(65536, dtype=torch.int32).to(torch.int16)
    for kind in (torch.float16, torch.bfloat16):
        halves, wide = bits.view(kind), torch.empty(65536)
        operations.scale([halves], [wide], 1.0)
        assert torch.equal(wide.nan_to_num(7.0), halves.float().nan_to_num(7.0))
        back = torch.empty(65536, dtype=kind)
        operations.scale([wide], [back], 1.0)
        assert torch.equal(back.float().nan_to_num(7.0), halves.float().nan_to_num(7.0))


def test_rounding_is_torchs() -> None:
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31 - 1, (200_000,), generator=generator, dtype=torch.int64).to(torch.int32)
    small = torch.randn(50_000, generator=generator) * 1e-6
    # Ties of float16, both ways, and of bfloat16.
    ties = torch.tensor([1 + 2**-11, 1 + 3 * 2**-11, 65519.0, 65520.0, 2**-25, 3 * 2**-25, 1 + 2**-8, 1 + 3 * 2**-8])
    values = torch.cat([bits.view(torch.float32), small, ties])
    for kind in (torch.float16, torch.bfloat16):
        rounded = torch.empty(values.numel(), dtype=kind)
        operations.scale([values], [rounded], 1.0)
        assert torch.equal(rounded.float().nan_to_num(7.0), values.to(kind).float().nan_to_num(7.0))
