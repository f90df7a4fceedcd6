"""What `amp.master_params` yields of an optimizer with parameter groups: in the order of the models, where it can."""

from __future__ import annotations

import pytest
import torch
from ampify_runtime import amp


def built() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 1))
    bare = [p for n, p in model.named_parameters() if n.endswith("bias")]
    rest = [p for n, p in model.named_parameters() if not n.endswith("bias")]
    return model, torch.optim.SGD([{"params": bare, "weight_decay": 0.0}, {"params": rest}], lr=0.1)


@pytest.mark.parametrize("level", ["O0", "O1", "O4"])
def test_groups_are_read_in_the_order_of_the_model(level: str) -> None:
    model, optimizer = built()
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    late = torch.nn.Parameter(torch.zeros(2))
    optimizer.add_param_group({"params": [late]})
    expected = [*model.parameters(), late]
    assert [id(p) for p in amp.master_params(optimizer)] == [id(p) for p in expected]


def test_masters_are_read_in_the_order_of_the_groups() -> None:
    model, optimizer = built()
    model, optimizer = amp.initialize(model, optimizer, opt_level="O5", verbosity=0)
    grouped = [p for group in optimizer.param_groups for p in group["params"]]
    assert [id(p) for p in amp.master_params(optimizer)] == [id(p) for p in grouped]
