"""A checkpoint gives back the optimizer's state and not the scale of a loop that gets a scaler.

What it does
------------
With `--target native` it loads the scaler's state after the optimizer's, from the same checkpoint, if that has one.

Why it matters
--------------
A resumed run would begin with the first scale, and leave out steps until it has found the right one again.

Before
------
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoint = torch.load("last.pt")
    optimizer.load_state_dict(checkpoint["optimizer"])
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
    checkpoint = torch.load("last.pt")
    optimizer.load_state_dict(checkpoint["optimizer"])
    if checkpoint.get("scaler"):
        scaler.load_state_dict(checkpoint["scaler"])
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=device.type == "cuda"):
            loss = model(torch.ones(2, 4, device=device)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Fix safety
----------
Safe: a checkpoint from before there was a scaler is read as it was, and so is one that was written where the scaler was
not enabled, whose state is empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import InsertAfter
from ampify.model.finding import Finding
from ampify.model.project import Project, StateLoad, TrainingLoop
from ampify.model.settings import Settings
from ampify.rules.migration import quoted
from ampify.rules.scaling import Spelling, plans, scales

CODE = "AMP431"
NAME = "optimizer-loaded-without-scaler"
TARGET = "native"
MESSAGE = "the optimizer's state is restored here without the scaler's: the scale starts anew"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every load of optimizer state without the scaler's."""
    for loop, plan in plans(project, settings) if scales(settings) else ():
        for load in (load for load in loop.loads if not load.present):
            yield _finding(project, settings, loop, load, plan.state(load.site))


def _finding(project: Project, settings: Settings, loop: TrainingLoop, load: StateLoad, scaler: str | None) -> Finding:
    path = load.site.path
    if scaler is None or load.statement is None or load.source is None or load.reader(loaded=True) is not None:
        hint = "where the checkpoint holds it, call load_state_dict(...) of the scaler after this by hand"
        return Finding(CODE, NAME, load.site, MESSAGE, hint, loop=loop.id)
    key = quoted(project, path, "scaler")
    code = f"if {load.source}.get({key}):\n    {scaler}.load_state_dict({load.source}[{key}])"
    if load.popped:
        # The key goes even if the state under it is empty.
        code = f"{scaler}.load_state_dict({load.source}.pop({key}, None) or {scaler}.state_dict())"
    fix = Spelling.of(project, settings, load.site).fix(loop, InsertAfter(load.statement, code))
    return Finding(CODE, NAME, load.site, MESSAGE, fix=fix, loop=loop.id)
