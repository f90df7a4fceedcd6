"""A training loop has no scaler for its gradients.

What it does
------------
With `--target native` it makes a `torch.amp.GradScaler` where model and optimizer are ready: beside the optimizer, as a
variable, a global or a field of the same object. Functions that use it and cannot see it get it as a parameter, and
every call hands it on. `enabled=` follows from what the script itself decides its device by.

Why it matters
--------------
Gradients of float16 tensors below 6e-8 become zero. A scale keeps them, and has to live as long as the training does.

Before
------
    import torch


    def train(model, device, optimizer):
        for step in range(3):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4, device=device)).mean()
            loss.backward()
            optimizer.step()


    def main():
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = torch.nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, device, optimizer)


    main()

After
-----
    import torch


    def train(model, device, optimizer, scaler):
        for step in range(3):
            optimizer.zero_grad()
            with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=device.type == "cuda"):
                loss = model(torch.ones(2, 4, device=device)).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


    def main():
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = torch.nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
        train(model, device, optimizer, scaler)


    main()

Fix safety
----------
Safe: a scaler that is not enabled hands everything through.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import AddElement, AddParameter, Edit, InsertAfter
from ampify.model.finding import Finding
from ampify.model.project import Project, TrainingLoop
from ampify.model.scaling import Creation, Passing
from ampify.model.settings import Settings
from ampify.rules.scaling import Spelling, plans, scales

CODE = "AMP121"
NAME = "loop-without-scaler"
TARGET = "native"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every place where a scaler is to be made, and for each function and call that it passes through."""
    if not scales(settings):
        return
    for loop, plan in plans(project, settings):
        for creation in plan.creations:
            yield _creation(project, settings, loop, creation)
        for passing in plan.parameters:
            message = "this function needs the scaler, and nothing hands it over"
            yield _passing(project, settings, loop, passing, message, AddParameter(passing.anchor, passing.code))
        for passing in plan.arguments:
            message = "what is called here needs the scaler"
            yield _passing(project, settings, loop, passing, message, AddElement(passing.anchor, passing.code))


def _creation(project: Project, settings: Settings, loop: TrainingLoop, creation: Creation) -> Finding:
    spelling = Spelling.of(project, settings, creation.anchor)
    code = f"{creation.scaler} = {spelling.scaler(creation.device)}"
    fix = spelling.fix(loop, InsertAfter(creation.anchor, code))
    return Finding(CODE, NAME, creation.anchor, "what this builds is trained without a scaler", fix=fix, loop=loop.id)


def _passing(
    project: Project, settings: Settings, loop: TrainingLoop, passing: Passing, message: str, edit: Edit
) -> Finding:
    fix = Spelling.of(project, settings, passing.anchor).fix(loop, edit)
    return Finding(CODE, NAME, passing.anchor, message, fix=fix, loop=loop.id)
