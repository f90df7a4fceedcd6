"""A checkpoint holds the optimizer's state but not the loss scale.

What it does
------------
Adds `amp.state_dict()` under the key `amp` to a dict that receives the state of a migrated loop's optimizer. Where the
dict, or the checkpoint that is loaded, is gone over key by key, it only reports: a new key might be taken for another.

Why it matters
--------------
A resumed run would start with the initial loss scale, and skip steps until it has fallen again.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")

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
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, "last.pt")

Fix safety
----------
Safe: what reads the checkpoint finds all that it found before, and asks for it by name.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import AddElement, Edit, InsertAfter
from ampify.model.finding import Finding, Related
from ampify.model.project import Project, StateSave, TrainingLoop
from ampify.model.settings import Settings
from ampify.rules.migration import CONDITIONAL_AMP, migrating, quoted

CODE = "AMP401"
NAME = "checkpoint-without-amp-state"
TARGET = "runtime"
MESSAGE = "the optimizer's state is saved here without amp's: a resumed run would lose the loss scale"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every dict of optimizer state without amp's."""
    for loop in project.loops:
        for save in loop.saves:
            edit = None if save.present else _edit(project, save)
            if edit is not None:
                yield _finding(project, settings, loop, save, edit)


def _finding(project: Project, settings: Settings, loop: TrainingLoop, save: StateSave, edit: Edit) -> Finding:
    wholes = [save.read_whole, *(load.reader(loaded=True) for load in loop.loads)]
    reader = next((place for place in wholes if place is not None), None)
    if reader is not None:
        state = f"{project.amp(save.site.path)}.state_dict()"
        place = f"{reader.path}:{reader.line}"
        hint = f"all its keys are read at {place}: have that expect one more, and save {state} under it"
        related = (Related(reader, "all keys are read here"),)
        return Finding(CODE, NAME, save.site, MESSAGE, hint, loop=loop.id, related=related)
    fix = migrating(project, settings, loop, save.site.path, edit)
    hint = "" if fix else CONDITIONAL_AMP
    return Finding(CODE, NAME, save.site, MESSAGE, hint, fix, loop=loop.id)


def _edit(project: Project, save: StateSave) -> Edit | None:
    state = f"{project.amp(save.site.path)}.state_dict()"
    key = quoted(project, save.site.path, "amp")
    if save.container is not None:
        return AddElement(save.container, f"{key}: {state}" if save.container.kind == "Dict" else f"amp={state}")
    if save.target is not None:
        return InsertAfter(save.statement, f"{save.target}[{key}] = {state}")
    return None
