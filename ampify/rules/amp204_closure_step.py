"""The step of an optimizer is given a closure.

What it does
------------
Refuses a loop that calls `optimizer.step(closure)`, as LBFGS requires.

Why it matters
--------------
The optimizer evaluates the closure, backward included, as often as it likes within one step and compares the losses it
gets. Loss scaling decides once a step whether gradients overflowed; in the middle of a line search nothing could be
skipped.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters())


    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).pow(2).mean()
        loss.backward()
        return loss


    for step in range(3):
        optimizer.step(closure)

Hint
----
Keep LBFGS in float32. With an optimizer that needs no closure, call it without one, after the backward.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP204"
NAME = "closure-step"
MESSAGE = "step is given a closure, which runs the backward as often as the optimizer likes: loss scaling cannot follow"
HINT = "keep this optimizer in float32, or call step() without a closure after the backward if the optimizer allows it"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop that steps with a closure."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
