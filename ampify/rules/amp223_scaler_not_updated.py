"""A scaler steps and is never updated.

What it does
------------
Points to `scaler.step(optimizer)` where nothing calls `update()` of that scaler, and puts the call after it where
this is the scaler's only step.

Why it matters
--------------
The scale stays as it is, and after the first step the scaler raises: step() has already been called since the last
update().

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

After
-----
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

Fix safety
----------
Unsafe: the scale starts to adapt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ampify.model.edit import Edit, InsertAfter
from ampify.model.finding import Finding
from ampify.model.native import Repair
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP223"
NAME = "scaler-not-updated"
MESSAGE = "nothing updates this scaler: its scale never adapts, and its next step raises"
HINT = "call scaler.update() once an iteration, after the last step"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT, edits=_edits)


def _edits(repair: Repair, _: str) -> Sequence[Edit]:
    return (InsertAfter(repair.anchor, f"{repair.names[0]}.update()"),)
