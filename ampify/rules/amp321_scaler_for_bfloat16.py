"""Losses are scaled although all is cast to bfloat16.

What it does
------------
Points to a GradScaler of a loop whose autocasts all say `torch.bfloat16`.

Why it matters
--------------
bfloat16 has the range of float32: nothing underflows that scaling would save. Scaling costs a check for infinities with
each step, and skips steps for nothing.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Hint
----
Use GradScaler(enabled=False) or take it out, for bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP321"
NAME = "scaler-for-bfloat16"
MESSAGE = "bfloat16 has the range of float32, so that this scaler has nothing to do"
HINT = "use GradScaler(enabled=False) or take it out, for bfloat16"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT, refuses=False)
