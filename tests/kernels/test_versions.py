"""What kernels write has a new version: they write past torch's sight, and others go by versions."""

from __future__ import annotations

import pytest
import torch
from ampify_runtime.kernels import operations
from ampify_runtime.kernels.operations import StepState

from tests.kernels.emulation import Emulated


def test_written_tensors_have_new_versions_and_read_ones_their_old(emulation: Emulated) -> None:
    grad, param, first, second, model = (torch.ones(5) for _ in range(5))
    state = StepState.on(torch.device("cpu"))
    operations.step_prep(state, lr=0.1, step=1)
    operations.adam([grad], [param], [first], [second], state, model_params=[model], betas=(0.9, 0.99), eps=1e-8)
    assert [tensor._version > 0 for tensor in (grad, param, first, second, model)] == [False, True, True, True, True]
    out = torch.zeros(5)
    operations.scale([grad], [out], 2.0)
    assert (grad._version, out._version > 0) == (0, True)


def test_a_weight_stepped_between_forward_and_backward_is_noticed(emulation: Emulated) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    loss = (weight * weight).sum()
    state = StepState.on(torch.device("cpu"))
    operations.step_prep(state, lr=0.1)
    operations.sgd([torch.ones(3)], [weight], None, state)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
