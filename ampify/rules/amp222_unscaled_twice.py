"""Gradients of one optimizer are unscaled twice in one step.

What it does
------------
Points to an `unscale_` that follows another of the same optimizer with no step and no `update()` in between.

Why it matters
--------------
The scaler raises RuntimeError: it refuses to divide the same gradients by the scale once more.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

Hint
----
Unscale once, after the last backward of a step.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP222"
NAME = "unscaled-twice"
MESSAGE = "these gradients have been unscaled since the last step already"
HINT = "unscale once, after the last backward of a step"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT)
