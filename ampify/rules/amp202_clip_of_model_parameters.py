"""Gradients are clipped on the model's parameters, not on those that the optimizer steps.

What it does
------------
Makes a clip that stands between backward and step, of just the parameters one optimizer holds, read
`amp.master_params(optimizer)`. The deprecated spelling `clip_grad_norm` becomes `clip_grad_norm_`. A clip of parts of
several optimizers stays as it is at `O0`, `O1` and `O4`, where gradients read unscaled after `amp.scale_loss`; at
levels with master parameters the loop is refused.

Why it matters
--------------
At levels with master parameters the optimizer steps other tensors than the model's: clipping the model's gradients
would clip nothing.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()

After
-----
    import torch
    from ampify_runtime import amp

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.5)
        optimizer.step()

Fix safety
----------
Safe: `amp.master_params(optimizer)` yields the same parameters where there are no masters.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.catalog import OLD_CLIP
from ampify.model.edit import Edit, Replace
from ampify.model.finding import Finding
from ampify.model.project import ClipCall, Project, TrainingLoop
from ampify.model.settings import Settings
from ampify.rules.migration import CASTING_LEVELS, CONDITIONAL_AMP, migrating

CODE = "AMP202"
NAME = "clip-of-model-parameters"
TARGET = "runtime"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every clip of a loop that does not read master parameters."""
    for loop in project.loops:
        for clip in loop.clips:
            finding = None if clip.right else _finding(project, settings, loop, clip)
            if finding is not None:
                yield finding


def _finding(project: Project, settings: Settings, loop: TrainingLoop, clip: ClipCall) -> Finding | None:
    edits: list[Edit] = []
    if clip.function_text.endswith(f".{OLD_CLIP}"):
        edits.append(Replace(clip.function, f"{clip.function_text}_"))
    if clip.optimizer is not None:
        edits.append(Replace(clip.parameters, f"{project.amp(clip.call.path)}.master_params({clip.optimizer})"))
        message = f"this clips the gradients of the model's parameters, not of those that {clip.optimizer} steps"
    elif (level := _level(settings, loop)) not in CASTING_LEVELS:
        message = f"at {level} no one optimizer holds just the parameters that this clips"
        hint = "clip amp.master_params(optimizer) of each optimizer by hand, or use O1"
        return Finding(CODE, NAME, clip.call, message, hint, refuses=True, loop=loop.id)
    else:
        message = f"{OLD_CLIP} is deprecated: torch spells it with an underscore at its end"
    if not edits:
        return None
    fix = migrating(project, settings, loop, clip.call.path, *edits)
    hint = "" if fix else CONDITIONAL_AMP
    return Finding(CODE, NAME, clip.call, message, hint, fix, loop=loop.id)


def _level(settings: Settings, loop: TrainingLoop) -> str:
    """The opt level that holds for a loop: of a call of `amp.initialize` that is there, else the one asked for."""
    present = [place.level for place in loop.initializes if place.present]
    return next((level for level in present if level not in CASTING_LEVELS), None) or (
        settings.opt_level if not present else "O1"
    )
