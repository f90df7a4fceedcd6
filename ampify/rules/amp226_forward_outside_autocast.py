"""The model and its loss are computed outside autocast.

What it does
------------
With `--target native` it puts the statements that run the model for a loss, from the first of them to the last that
builds the loss, under `torch.autocast`. The backward stays outside. A loss that is computed in the backward's own
statement gets one of its own.

Why it matters
--------------
Outside autocast everything runs in float32. Under it the backward would be cast a second time.

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
Safe: autocast that is not enabled does nothing. At `O4` it casts to bfloat16, on every device, and there is no scaler.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import Edit, InsertBefore, Replace, Wrap
from ampify.model.finding import Finding
from ampify.model.project import Project, TrainingLoop
from ampify.model.scaling import Inline, Region
from ampify.model.settings import Settings
from ampify.rules.scaling import Spelling, plans, scales

CODE = "AMP226"
NAME = "forward-outside-autocast"
TARGET = "native"
MESSAGE = "this runs the model, or builds a loss, in float32"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every forward that trains."""
    for loop, plan in plans(project, settings):
        for region in plan.regions:
            yield _region(project, settings, loop, region)
        for inline in plan.inlines:
            yield _inline(project, settings, loop, inline)


def _region(project: Project, settings: Settings, loop: TrainingLoop, region: Region) -> Finding:
    spelling = Spelling.of(project, settings, region.first)
    last = None if region.last == region.first else region.last
    edit = Wrap(region.first, spelling.autocast(region.device), last)
    return Finding(CODE, NAME, region.first, MESSAGE, fix=spelling.fix(loop, edit), loop=loop.id)


def _inline(project: Project, settings: Settings, loop: TrainingLoop, inline: Inline) -> Finding:
    spelling = Spelling.of(project, settings, inline.statement)
    code = f"{spelling.autocast(inline.device)}\n    {inline.name} = {inline.loss_text}"
    edits: list[Edit] = [InsertBefore(inline.statement, code)]
    if not scales(settings):
        # Otherwise the scaled backward takes the place of the loss.
        edits.append(Replace(inline.loss, inline.name))
    return Finding(CODE, NAME, inline.loss, MESSAGE, fix=spelling.fix(loop, *edits), loop=loop.id)
