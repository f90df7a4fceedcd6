"""Gradients of several types and layouts in one optimizer, and how what a hook began is undone."""

from __future__ import annotations

import pytest
import torch
from ampify_runtime._core.gradients import gradients_of, multiply_and_check
from ampify_runtime._core.regions import Exits
from torch import nn


def _optimizer(*parameters: nn.Parameter) -> torch.optim.SGD:
    return torch.optim.SGD(parameters, lr=0.1)


@pytest.mark.parametrize("dtypes", [(torch.float32,), (torch.float32, torch.float64), (torch.bfloat16, torch.float32)])
@pytest.mark.parametrize("bad", [None, 0, 3])
def test_gradients_of_several_types_are_all_unscaled_and_looked_at(
    dtypes: tuple[torch.dtype, ...], bad: int | None
) -> None:
    grads = [torch.full((3,), 8.0, dtype=dtypes[index % len(dtypes)]) for index in range(4)]
    if bad is not None:
        grads[bad][1] = float("inf")
    found_inf = multiply_and_check(grads, torch.tensor(0.25))
    assert found_inf is not None
    assert bool(found_inf) is (bad is not None)
    assert all(float(grad[0]) == 2.0 for grad in grads)


def test_a_sparse_gradient_among_dense_ones_is_read_by_its_values() -> None:
    table, dense, idle = nn.Parameter(torch.ones(5, 2)), nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(1))
    loss = nn.functional.embedding(torch.tensor([1, 3]), table, sparse=True).sum() + dense.sum()
    torch.autograd.backward(loss)
    grads = gradients_of(_optimizer(dense, idle, table))
    assert [grad.shape for grad in grads] == [(3,), (2, 2)]
    multiply_and_check(grads, torch.tensor(0.5))
    assert table.grad is not None
    assert table.grad.to_dense()[:, 0].tolist() == [0.0, 0.5, 0.0, 0.5, 0.0]


def test_a_region_undoes_all_in_reverse_whatever_raises() -> None:
    undone: list[int] = []

    def fail(number: int) -> None:
        undone.append(number)
        raise ValueError(number)

    exits = Exits()
    for number, function in enumerate((undone.append, fail, undone.append, fail)):
        exits.callback(function, number)
    with pytest.raises(ValueError, match="1") as raised:
        exits.close()
    assert undone == [3, 2, 1, 0]
    assert isinstance(raised.value.__context__, ValueError)
    exits.close()
    assert undone == [3, 2, 1, 0]
