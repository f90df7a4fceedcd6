"""A checkpoint holds the optimizer's state but not the scaler's.

What it does
------------
Points to where the optimizer's state of a loop with a GradScaler is saved with no state of the scaler in the same
function, and adds it to the dict where the scaler is at hand under its name.

Why it matters
--------------
A resumed run starts with a scale of 65536, and skips steps until it has fallen to where it was.

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
        scaler.update()
    torch.save({"net": model.state_dict(), "optim": optimizer.state_dict()}, "last.pt")

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
    torch.save({"net": model.state_dict(), "optim": optimizer.state_dict(), "scaler": scaler.state_dict()}, "last.pt")

Fix safety
----------
Safe: what reads the checkpoint finds all that it found before, and asks for it by name. Where it is gone over key by
key, or loaded where the scaler is not at hand, it only reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ampify.model.edit import AddElement, Edit
from ampify.model.finding import Finding
from ampify.model.native import Repair
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP420"
NAME = "checkpoint-without-scaler-state"
MESSAGE = "the optimizer's state is saved here without the scaler's: a resumed run would lose the scale"
HINT = "save scaler.state_dict() beside it"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT, edits=_edits, applicability="safe", refuses=False)


def _edits(repair: Repair, quote: str) -> Sequence[Edit]:
    state = f"{repair.names[0]}.state_dict()"
    element = f"{quote}scaler{quote}: {state}" if repair.anchor.kind == "Dict" else f"scaler={state}"
    return (AddElement(repair.anchor, element),)
