"""A checkpoint of a loop that gets a scaler holds the optimizer's state and not the scale.

What it does
------------
With `--target native` it adds `scaler.state_dict()` under the key `scaler` to a dict that receives the optimizer's
state. Where the checkpoint is read as a whole somewhere, it only reports.

Why it matters
--------------
A resumed run would begin with the first scale, and leave out steps until it has found the right one again.

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
    state = {"optimizer": optimizer.state_dict()}
    torch.save(state, "last.pt")

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
    state = {"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
    torch.save(state, "last.pt")

Fix safety
----------
Safe: one more key in a dict that nothing goes over as a whole. The state of a scaler that is not enabled is empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import AddElement, Edit, InsertAfter
from ampify.model.finding import Finding, Related
from ampify.model.project import Project, StateSave, TrainingLoop
from ampify.model.scaling import Scaling
from ampify.model.settings import Settings
from ampify.rules.migration import quoted
from ampify.rules.scaling import Spelling, plans, scales

CODE = "AMP430"
NAME = "optimizer-saved-without-scaler"
TARGET = "native"
MESSAGE = "the optimizer's state is saved here without the scaler's: a resumed run would lose the scale"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every dict of optimizer state without the scaler's."""
    for loop, plan in plans(project, settings) if scales(settings) else ():
        for save in loop.saves:
            if not save.present and (save.container is not None or save.target is not None):
                yield _finding(project, settings, loop, save, plan)


def _finding(project: Project, settings: Settings, loop: TrainingLoop, save: StateSave, plan: Scaling) -> Finding:
    scaler = plan.state(save.site)
    wholes = [save.read_whole, *(load.reader(loaded=plan.state(load.site) is not None) for load in loop.loads)]
    reader = next((place for place in wholes if place is not None), None)
    if reader is not None:
        hint = (
            f"all its keys are read at {reader.path}:{reader.line}: have that expect one more, for the scaler's state"
        )
        related = (Related(reader, "all keys are read here"),)
        return Finding(CODE, NAME, save.site, MESSAGE, hint, loop=loop.id, related=related)
    if scaler is None:
        hint = "nothing here can name the scaler: save its state_dict() beside this by hand"
        return Finding(CODE, NAME, save.site, MESSAGE, hint, loop=loop.id)
    fix = Spelling.of(project, settings, save.site).fix(loop, _edit(project, save, f"{scaler}.state_dict()"))
    return Finding(CODE, NAME, save.site, MESSAGE, fix=fix, loop=loop.id)


def _edit(project: Project, save: StateSave, state: str) -> Edit:
    key = quoted(project, save.site.path, "scaler")
    if save.container is not None:
        return AddElement(save.container, f"{key}: {state}" if save.container.kind == "Dict" else f"scaler={state}")
    return InsertAfter(save.statement, f"{save.target}[{key}] = {state}")
