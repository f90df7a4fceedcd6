"""Gradients are used in other rounds than the optimizer's step, so that no single place is right to unscale them.

What it does
------------
With `--target native` it refuses a loop that reads or clips gradients where a step need not follow, or after it where
another backward may have added to them; that computes a gradient penalty; or that steps one optimizer while gradients
wait for another.

Why it matters
--------------
`scaler.unscale_` may be called once before each step, and the scale must not change while gradients of the old one
wait.

Before
------
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        loss = model(torch.ones(2, 4, device=device)).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()

Hint
----
Clip under the condition that the step is under, right before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP231"
NAME = "gradients-out-of-step"
TARGET = "native"
MESSAGE = "gradients are used here where they cannot be unscaled exactly"
HINT = "use them right before the step, under the condition that it is under; or use --target runtime"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop of the kind."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
