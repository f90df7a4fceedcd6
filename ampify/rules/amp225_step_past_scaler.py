"""An optimizer steps by itself on gradients of a scaled loss.

What it does
------------
Points to `optimizer.step()` that consumes the gradients of `scaler.scale(loss).backward()`.

Why it matters
--------------
The gradients are thousands of times too large, and a step on infinities is not skipped: the parameters are lost.

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
        optimizer.step()
        scaler.update()

Hint
----
Step by scaler.step(optimizer).
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP225"
NAME = "step-past-scaler"
MESSAGE = "this steps with gradients that are still scaled, whether they are finite or not"
HINT = "step by scaler.step(optimizer)"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT)
