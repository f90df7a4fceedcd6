"""A checkpoint holds the optimizer's state but not the loss scale.

What it does
------------
Adds `amp.state_dict()` under the key `amp` to a dict that receives the state of a migrated loop's optimizer.

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
Safe: what reads the checkpoint finds all that it found before.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import AddElement, Edit, InsertAfter
from ampify.model.finding import Finding
from ampify.model.project import Project, StateSave
from ampify.model.settings import Settings
from ampify.rules.migration import migrating, quoted

CODE = "AMP401"
NAME = "checkpoint-without-amp-state"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every dict of optimizer state without amp's."""
    for loop in project.loops:
        for save in loop.saves:
            edit = None if save.present else _edit(project, save)
            if edit is not None:
                message = "the optimizer's state is saved here without amp's: a resumed run would lose the loss scale"
                fix = migrating(project, settings, loop, save.site.path, edit)
                yield Finding(CODE, NAME, save.site, message, fix=fix, loop=loop.id)


def _edit(project: Project, save: StateSave) -> Edit | None:
    state = f"{project.amp(save.site.path)}.state_dict()"
    key = quoted(project, save.site.path, "amp")
    if save.container is not None:
        return AddElement(save.container, f"{key}: {state}" if save.container.kind == "Dict" else f"amp={state}")
    if save.target is not None:
        return InsertAfter(save.statement, f"{save.target}[{key}] = {state}")
    return None
