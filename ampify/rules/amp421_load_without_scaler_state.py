"""The optimizer's state is restored from a checkpoint, the scaler's is not.

What it does
------------
Points to where the optimizer's state of a loop with a GradScaler is loaded with no state of the scaler in the same
function, and loads it, if the checkpoint has it, where the scaler is at hand under its name.

Why it matters
--------------
A resumed run starts with a scale of 65536, and skips steps until it has fallen to where it was.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    checkpoint = torch.load("last.pt")
    optimizer.load_state_dict(checkpoint["optimizer"])
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
Safe: a checkpoint without the scaler's state is read as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ampify.model.edit import Edit, InsertAfter
from ampify.model.finding import Finding
from ampify.model.native import Repair
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP421"
NAME = "load-without-scaler-state"
MESSAGE = "the optimizer's state is restored here without the scaler's: the scale starts anew"
HINT = "load the scaler's state beside it, where the checkpoint has it"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT, edits=_edits, applicability="safe", refuses=False)


def _edits(repair: Repair, quote: str) -> Sequence[Edit]:
    scaler, holder = repair.names
    key = f"{quote}scaler{quote}"
    code = f"if {key} in {holder}:\n    {scaler}.load_state_dict({holder}[{key}])"
    return (InsertAfter(repair.anchor, code),)
