"""A file uses torch's own mixed precision already.

What it does
------------
Refuses the loops of a file that uses `torch.amp`, `torch.cuda.amp` or `torch.autocast`. It is left as it is.

Why it matters
--------------
Two scalers on one loss, or two owners of the casts, would be wrong.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()

Hint
----
Nothing needs to be done: the file is left as it is. To migrate it, take autocast and GradScaler out first.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP501"
NAME = "torch-amp-loop"
MESSAGE = "this file is in mixed precision by torch already"
HINT = "it is left as it is; to migrate it, take autocast and GradScaler out and run ampify again"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal for every file that uses torch.amp."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
