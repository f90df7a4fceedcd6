"""Autocast goes around a whole training loop.

What it does
------------
Points to a backward in a loop that is itself inside of a `with` block of autocast.

Why it matters
--------------
Until its block ends, autocast keeps the weights that it has cast, and does not see that a step has changed them: the
model computes with its first weights in every round, and nothing is learnt.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda"):
        for step in range(3):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4)).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

Hint
----
Enter autocast in each round, around forward and loss only.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP325"
NAME = "autocast-around-loop"
MESSAGE = "autocast around the loop keeps its casts of the weights: steps change weights that forward no longer reads"
HINT = "enter autocast in each round, around forward and loss only"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT)
