"""A parameter's gradient is read while it is still scaled.

What it does
------------
Points to a read of `.grad` between a scaled backward and the scaler's step with no `unscale_` before it. It refuses
nothing: the author may know of the scale. Averages over processes are right as they are.

Why it matters
--------------
What is read is thousands of times too large: a norm that is logged or compared, a gradient that is copied or changed.

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
        print(model.weight.grad.norm())
        scaler.step(optimizer)
        scaler.update()

Hint
----
Call scaler.unscale_(optimizer) once between the backward and this.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP221"
NAME = "gradient-read-before-unscale"
MESSAGE = "this gradient is still scaled"
HINT = "call scaler.unscale_(optimizer) once between the backward and this"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT, refuses=False)
