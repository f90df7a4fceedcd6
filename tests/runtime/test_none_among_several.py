"""A model or optimizer that a script makes only where it is asked for: None in a list is passed over."""

from __future__ import annotations

import torch
from ampify_runtime import amp


def test_none_in_a_list_is_passed_over_and_comes_back() -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    models, optimizers = amp.initialize([model, None], [None, optimizer], opt_level="O2", loss_scale=8.0, verbosity=0)
    assert (models, optimizers) == ([model, None], [None, optimizer])
    before = model.weight.detach().clone()
    with amp.scale_loss(model(torch.ones(2, 4)).mean(), [None, optimizer]) as scaled_loss:
        scaled_loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1e6)
    assert 0 < norm < 10
    optimizer.step()
    assert not torch.equal(model.weight, before)
