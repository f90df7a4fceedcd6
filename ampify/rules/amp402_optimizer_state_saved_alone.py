"""The optimizer's state goes into a file of its own, where amp's state has no place.

What it does
------------
Points to a `torch.save(optimizer.state_dict(), ...)` of a loop that is migrated. It changes nothing and refuses
nothing: the loop is migrated all the same.

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
MESSAGE = "the optimizer's state is saved in a file of its own, without the loss scale: a resumed run will find it anew"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """Advice on every optimizer state saved alone; none on loops that are refused, which have no loss scale."""
    refused = {obstacle.loop for obstacle in project.obstacles}
    for loop in project.loops:
        if loop.id not in refused:
            yield from _findings(project, loop)


def _findings(project: Project, loop: TrainingLoop) -> Iterator[Finding]:
    for save in loop.saves:
        if save.container is None and save.target is None and not save.present:
            amp = project.amp(save.site.path)
            hint = f"save {amp}.state_dict() beside it and load it after {amp}.initialize, if runs are resumed"
            yield Finding(CODE, NAME, save.site, MESSAGE, hint, loop=loop.id)
