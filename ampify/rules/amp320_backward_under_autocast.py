"""A backward runs under autocast.

What it does
------------
Points to a backward inside of a `with` block of autocast. Where the block goes around the whole loop, see AMP325.

Why it matters
--------------
Operations in backward run in the type that forward chose, whatever the block says. Torch advises against it.

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
        scaler.step(optimizer)
        scaler.update()

Hint
----
End the autocast block after the loss.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP320"
NAME = "backward-under-autocast"
MESSAGE = "this backward runs under autocast, which should end after the loss"
HINT = "end the autocast block after the loss"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT, refuses=False)
