"""A backward that feeds an optimizer's step runs on a loss that no scaler scales.

What it does
------------
With `--target native` the loss of the backward becomes `scaler.scale(loss)`. Arguments of the backward are kept.

Why it matters
--------------
Gradients of float16 tensors below 6e-8 become zero. Scaling the loss keeps them.

Before
------
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4, device=device)).mean().backward()
        optimizer.step()

After
-----
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=device.type == "cuda"):
            loss = model(torch.ones(2, 4, device=device)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Fix safety
----------
Safe: the step unscales, and is left out where a gradient overflowed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import Replace
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.scaling import Spelling, plans, scales

CODE = "AMP227"
NAME = "backward-without-scaler"
TARGET = "native"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every backward that trains."""
    if not scales(settings):
        return
    for loop, plan in plans(project, settings):
        for backward in plan.backwards:
            edit = Replace(backward.loss, f"{backward.scaler}.scale({backward.text})")
            fix = Spelling.of(project, settings, backward.call).fix(loop, edit)
            message = "the gradients of this backward feed a step, and nothing scales its loss"
            yield Finding(CODE, NAME, backward.call, message, fix=fix, loop=loop.id)
