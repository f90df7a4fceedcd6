"""A scaler is made anew within the training loop.

What it does
------------
Points to a GradScaler that is made inside of a loop that trains: each epoch, or each batch.

Why it matters
--------------
Its scale starts again at 65536 each time: the first steps of each round are skipped until it has
fallen to where it was.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        scaler = torch.amp.GradScaler("cuda")
        for step in range(3):
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = model(torch.ones(2, 4)).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

Hint
----
Make it once, before the loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP324"
NAME = "scaler-made-anew"
MESSAGE = "this makes a new scaler, with a new scale, in each round"
HINT = "make it once, before the loop"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT)
