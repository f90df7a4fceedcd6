"""A scaler's state is loaded by a key that older checkpoints do not have.

What it does
------------
Points to `scaler.load_state_dict(checkpoint[key])` under no condition, and puts it under one where the checkpoint is a
plain name.

Why it matters
--------------
A checkpoint written before mixed precision came in stops the script with KeyError.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    checkpoint = torch.load("last.pt")
    optimizer.load_state_dict(checkpoint["optimizer"])
    scaler.load_state_dict(checkpoint["scaler"])
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

After
-----
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    checkpoint = torch.load("last.pt")
    optimizer.load_state_dict(checkpoint["optimizer"])
    if "scaler" in checkpoint:
        scaler.load_state_dict(checkpoint["scaler"])
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Fix safety
----------
Safe: a checkpoint that has the key is read as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ampify.model.edit import Edit, Wrap
from ampify.model.finding import Finding
from ampify.model.native import Repair
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP422"
NAME = "scaler-state-demanded"
MESSAGE = "a checkpoint from before there was a scaler stops here with KeyError"
HINT = "ask whether the checkpoint has the key first"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT, edits=_edits, applicability="safe", refuses=False)


def _edits(repair: Repair, _: str) -> Sequence[Edit]:
    key, holder = repair.names
    return (Wrap(repair.anchor, f"if {key} in {holder}:"),)
