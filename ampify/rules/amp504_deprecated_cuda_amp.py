"""A file uses `torch.cuda.amp`, which torch has deprecated.

What it does
------------
Spells `autocast`, `GradScaler`, `custom_fwd` and `custom_bwd` by `torch.amp`, with the device that they had implied.
All uses of a file change together. It only reports where a name is handed on as a value, or to other files, which call
it in the old way.

Why it matters
--------------
Every call warns with FutureWarning since torch 2.4, and the names are to go.

Before
------
    import torch
    from torch.cuda.amp import GradScaler, autocast

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler(enabled=torch.cuda.is_available())
    for step in range(3):
        optimizer.zero_grad()
        with autocast():
            loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

After
-----
    import torch
    from torch.amp import GradScaler, autocast

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cuda", enabled=torch.cuda.is_available())
    for step in range(3):
        optimizer.zero_grad()
        with autocast("cuda"):
            loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Fix safety
----------
Safe with torch 2.4 and later: the old names call the new ones with just these arguments.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import Fix, Replace
from ampify.model.finding import Finding, Related
from ampify.model.native import Respelling
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP504"
NAME = "deprecated-cuda-amp"
# Mistakes that wrong no gradient.
_OF_STATE = frozenset({"checkpoint-without-scaler-state", "load-without-scaler-state", "scaler-state-demanded"})
MESSAGE = "torch.cuda.amp is deprecated: torch.amp has the same names, and takes the device"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every file that uses the old names."""
    return (_finding(project, settings, found) for found in project.old_amp)


def _finding(project: Project, settings: Settings, found: Respelling) -> Finding:
    first, *others = found.places
    related = tuple(Related(place, "here too") for place in others)
    if found.obstacle or _is_faulty(project, settings, found.path):
        hint = f"by hand: {found.obstacle}" if found.obstacle else "first mend what is found wrong with the loop here"
        return Finding(CODE, NAME, first, MESSAGE, hint, related=related)
    edits = tuple(Replace(anchor, text) for anchor, text in found.texts)
    fix = Fix(edits, group=f"{found.path}:{CODE}")
    return Finding(CODE, NAME, first, MESSAGE, fix=fix, related=related)


def _is_faulty(project: Project, settings: Settings, path: str) -> bool:
    """Whether a loop of the file stays wrong, or is not known to be in torch.amp: none of it is to be changed then."""
    loops = [loop for loop in project.loops if any(anchor.path == path for anchor in loop.backwards)]
    wrong = (d for loop in loops if loop.native is not None for d in loop.native.defects if d.kind not in _OF_STATE)
    unknown = any(loop.native is None for loop in loops)
    return unknown or any(defect.repair is None or not settings.unsafe for defect in wrong)
