"""A value is cast to half precision by hand under autocast.

What it does
------------
Points to `.half()`, `.bfloat16()` and the like inside of a `with` block of autocast.

Why it matters
--------------
Autocast chooses the type of each operation. What is cast by hand stays in half precision where autocast would have kept
float32: sums, norms and losses lose digits or overflow.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4)).half().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Hint
----
Take the cast away, and leave it to autocast.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP323"
NAME = "half-under-autocast"
MESSAGE = "this casts by hand what autocast would cast where it should"
HINT = "take the cast away, and leave it to autocast"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT, refuses=False)
