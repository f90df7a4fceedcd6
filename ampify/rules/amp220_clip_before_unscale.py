"""Gradients are clipped while they are still scaled.

What it does
------------
Points to a clip between a scaled backward and the scaler's step with no `unscale_` before it, and puts one there where
the step stands in the same block.

Why it matters
--------------
A scaled gradient is thousands of times too large: the clip shrinks it to its bound every time, so that after unscaling
the step is next to nothing. Training goes on, and learns hardly anything.

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
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

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
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

Fix safety
----------
Unsafe: the clip starts to mean what it says, so training goes another way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ampify.model.edit import Edit, InsertBefore
from ampify.model.finding import Finding
from ampify.model.native import Repair
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP220"
NAME = "clip-before-unscale"
MESSAGE = "these gradients are still scaled: the clip bounds them by a bound that is thousands of times too small"
HINT = "call scaler.unscale_(optimizer) once between the backward and this"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT, edits=_edits)


def _edits(repair: Repair, _: str) -> Sequence[Edit]:
    scaler, optimizer = repair.names
    return (InsertBefore(repair.anchor, f"{scaler}.unscale_({optimizer})"),)
