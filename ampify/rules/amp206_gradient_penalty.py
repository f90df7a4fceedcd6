"""Gradients are computed by `torch.autograd.grad` inside a training loop.

What it does
------------
Refuses a loop that calls `torch.autograd.grad`, as gradient penalties and second derivatives do.

Why it matters
--------------
The gradients it returns are not scaled, so small ones vanish in float16; were the loss scaled, they would have to be
unscaled before they enter another loss. Where that belongs depends on the mathematics of the loss.

Before
------
    import torch

    critic = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for step in range(3):
        inputs = torch.rand(2, 4, requires_grad=True)
        scores = critic(inputs).sum()
        (gradient,) = torch.autograd.grad(scores, inputs, create_graph=True)
        loss = -scores + (gradient.norm(dim=1) - 1).pow(2).mean()
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
MESSAGE = "gradients of torch.autograd.grad are neither scaled nor unscaled, and underflow in float16"
HINT = "keep this loop in float32, or scale the loss given to autograd.grad and divide its result by hand"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop that calls torch.autograd.grad."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
