"""A file uses torch's own mixed precision, and its training loop does not.

What it does
------------
Refuses a loop in a file that uses `torch.amp`, `torch.cuda.amp` or `torch.autocast`, if nothing shows that the loop
itself is scaled or cast by them. A loop that is stays as it is, and is held to rules of its own (AMP220, AMP320, AMP420
and those after them).

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
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        print(model(torch.ones(2, 4)))

Hint
----
To migrate the loop, take autocast and GradScaler out of the file first.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP501"
NAME = "torch-amp-loop"
MESSAGE = "this file is in torch's own mixed precision, and nothing shows that this training loop is"
HINT = "put forward and loss under torch.autocast; or take autocast and GradScaler out, and run ampify again"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal for every file that uses torch.amp."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
