"""An optimizer steps on gradients that a scaler scaled, without the scaler.

What it does
------------
With `--target native` `optimizer.step()` becomes `scaler.step(optimizer)`, and `scaler.update()` follows the last step
of each round.

Why it matters
--------------
The scaler unscales the gradients, leaves out a step if one of them overflowed, and adapts the scale.

Before
------
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4, device=device)).mean()
        loss.backward()
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
Safe: a scaler that is not enabled steps the optimizer and does no more.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import InsertAfter, Replace
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.scaling import Spelling, plans, scales

CODE = "AMP229"
NAME = "step-without-scaler"
TARGET = "native"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every step, and for every place where the scale is to be adapted."""
    if not scales(settings):
        return
    for loop, plan in plans(project, settings):
        for step in plan.steps:
            fix = Spelling.of(project, settings, step.call).fix(
                loop, Replace(step.call, f"{step.scaler}.step({step.optimizer})")
            )
            message = f"{step.optimizer} would step on scaled gradients here"
            yield Finding(CODE, NAME, step.call, message, fix=fix, loop=loop.id)
        for update in plan.updates:
            fix = Spelling.of(project, settings, update.anchor).fix(
                loop, InsertAfter(update.anchor, f"{update.scaler}.update()")
            )
            yield Finding(CODE, NAME, update.step, "the scale is to be adapted after this step", fix=fix, loop=loop.id)
