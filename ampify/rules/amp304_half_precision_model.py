"""The code of a training loop casts to half precision by hand.

What it does
------------
Refuses a loop whose files call `.half()` or `.bfloat16()`.

Why it matters
--------------
A model in half precision has no float32 master weights: small updates are lost. Casts by hand and casts by autocast
would also meet in one computation.

Before
------
    import torch

    model = torch.nn.Linear(4, 1).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4).half()).mean()
        loss.backward()
        optimizer.step()

Hint
----
Take the casts away and let ampify migrate the float32 script.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP304"
NAME = "half-precision-model"
MESSAGE = "this casts to half precision by hand, which does not go together with casts by amp"
HINT = "take `.half()` and `.bfloat16()` away and run ampify again"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal for every cast to half precision."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
