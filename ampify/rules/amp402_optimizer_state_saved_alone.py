"""The optimizer's state is saved where amp's state cannot be put beside it by itself.

What it does
------------
Points to a `torch.save(optimizer.state_dict(), ...)` of a loop that is migrated, or to a list or dict that is made of
the states of several objects at once. It changes nothing and refuses nothing: the loop is migrated all the same.

Why it matters
--------------
The loss scale is not saved. A resumed run starts with the initial one and skips its first steps until it has fallen
again, which costs a few steps and no more.

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
    torch.save(optimizer.state_dict(), "optimizer.pt")

Hint
----
Save `amp.state_dict()` beside it and give it to `amp.load_state_dict` after `amp.initialize`, if runs are resumed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding
from ampify.model.project import Project, TrainingLoop
from ampify.model.settings import Settings

CODE = "AMP402"
NAME = "optimizer-state-saved-alone"
MESSAGE = "the optimizer's state is saved here without the loss scale, which a resumed run will have to find anew"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """Advice on every optimizer state saved alone; none on loops that are refused, which have no loss scale."""
    refused = {obstacle.loop for obstacle in project.obstacles}
    for loop in project.loops:
        if loop.id not in refused:
            yield from _findings(project, settings, loop)


def _findings(project: Project, settings: Settings, loop: TrainingLoop) -> Iterator[Finding]:
    for save in loop.saves:
        if save.container is None and save.target is None and not save.present:
            amp = project.amp(save.site.path)
            hint = f"save {amp}.state_dict() beside it and load it after {amp}.initialize, if runs are resumed"
            if settings.target == "native":
                hint = "save the scaler's state_dict() beside it and load both, if runs are resumed"
            yield Finding(CODE, NAME, save.site, MESSAGE, hint, loop=loop.id)
