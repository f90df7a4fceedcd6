"""Gradients are clipped or read between a backward and its step, where a scaler would have them scaled.

What it does
------------
With `--target native` it calls `scaler.unscale_(optimizer)` before the first such place of a step, once a step. The
removed spelling `clip_grad_norm` becomes `clip_grad_norm_`.

Why it matters
--------------
A scaled gradient is up to 65536 times too large: clipped to a norm of 1 it would be next to nothing.

Before
------
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        loss = model(torch.ones(2, 4, device=device)).mean() / 2
        loss.backward()
        if step % 2:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

After
-----
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    for step in range(4):
        with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=device.type == "cuda"):
            loss = model(torch.ones(2, 4, device=device)).mean() / 2
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

Fix safety
----------
Safe: `scaler.step` does not unscale a second time.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.catalog import OLD_CLIP
from ampify.model.edit import Edit, InsertBefore, Replace
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.scaling import Spelling, plans, scales

CODE = "AMP228"
NAME = "scaled-gradient-read"
TARGET = "native"
MESSAGE = "gradients are used here before the step, where a scaler would have them scaled"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every first place in a step that uses gradients, and for every old spelling of a clip."""
    for loop, plan in plans(project, settings):
        for place in plan.unscalings if scales(settings) else ():
            code = "\n".join(f"{place.scaler}.unscale_({optimizer})" for optimizer in place.optimizers)
            edits: list[Edit] = [InsertBefore(place.anchor, code)]
            fix = Spelling.of(project, settings, place.anchor).fix(loop, *edits)
            yield Finding(CODE, NAME, place.reader, MESSAGE, fix=fix, loop=loop.id)
        for clip in loop.clips:
            if clip.function_text.endswith(f".{OLD_CLIP}"):
                edit = Replace(clip.function, f"{clip.function_text}_")
                fix = Spelling.of(project, settings, clip.call).fix(loop, edit)
                message = f"{clip.function_text} is deprecated: torch spells it with an underscore at its end"
                yield Finding(CODE, NAME, clip.call, message, fix=fix, loop=loop.id)
