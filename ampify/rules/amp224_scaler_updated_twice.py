"""A scaler is updated more than once for one backward.

What it does
------------
Points to an `update()` that follows another of the same scaler with no scaled backward in between: one for each
optimizer, usually.

Why it matters
--------------
Each update counts as an iteration: the scale grows twice as fast as it should, and a second optimizer's step is
unscaled by another scale than its loss was scaled by.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scaler.step(other)
        scaler.update()

Hint
----
Call scaler.update() once an iteration, after the last step.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP224"
NAME = "scaler-updated-twice"
MESSAGE = "this scaler has been updated since the last backward already"
HINT = "call scaler.update() once an iteration, after the last step"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT)
