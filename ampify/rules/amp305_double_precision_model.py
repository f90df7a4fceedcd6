"""The model is in double precision.

What it does
------------
Refuses a loop whose model is cast by `.double()`.

Why it matters
--------------
Autocast leaves float64 as it is: nothing would run faster. A script that asks for float64 needs the digits.

Before
------
    import torch

    model = torch.nn.Linear(4, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4).double()).mean()
        loss.backward()
        optimizer.step()

Hint
----
Train in float32 first, if the results allow it, and run ampify again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP305"
NAME = "double-precision-model"
MESSAGE = "the model is float64 from here on, which mixed precision would not touch"
HINT = "train in float32 first (take `.double()` away), if the results allow it"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal for every model in double precision."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
