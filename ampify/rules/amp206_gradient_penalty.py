"""Gradients are differentiated again, or computed by `torch.autograd.grad`, inside a training loop.

What it does
------------
Refuses a loop that calls `torch.autograd.grad` or a backward with `create_graph`, as attacks on inputs, inner updates
and second derivatives do. A penalty on the size of input gradients is migrated (AMP306).

Why it matters
--------------
The gradients of `torch.autograd.grad` are not scaled, so small ones vanish in float16; were the loss scaled, they would
have to be unscaled before they enter another loss. Those of a backward are unscaled in place, which a second one does
not bear. Where that belongs depends on the mathematics of the loss.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(3):
        inputs = torch.rand(2, 4, requires_grad=True)
        (gradient,) = torch.autograd.grad(model(inputs).mean(), inputs)
        loss = model(inputs + 0.1 * gradient.sign()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

Hint
----
Keep the loop in float32, or migrate it by hand: scale what is given to `torch.autograd.grad`, divide its result by the
same scale, and compute the penalty in float32.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP206"
NAME = "gradient-penalty"
MESSAGE = "these gradients can be neither scaled nor unscaled without changing a loss made of them, or underflow"
HINT = "keep this loop in float32, or scale what is differentiated and divide the gradients by hand"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop that calls torch.autograd.grad, or a backward with create_graph."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
