"""A file uses NVIDIA apex.

What it does
------------
Refuses the loops of a file that imports `apex`.

Why it matters
--------------
Its loss is scaled already, and two scalers on one loss would be wrong. Layers and optimizers of apex are used in its
own way as well.

Before
------
    import torch
    from apex import amp

    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4).cuda()).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()

Hint
----
It is left as it is. If apex is no longer wanted, take its calls out and run ampify on the float32 script.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP502"
NAME = "apex-loop"
MESSAGE = "this file uses NVIDIA apex, and is left to it"
HINT = "to migrate it, take apex out of the script and run ampify again"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal for every file that imports apex."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
