"""Parameters are changed by hand, by their gradients.

What it does
------------
Refuses a loop that writes `w -= lr * w.grad` or calls the like of `p.data.add_(p.grad, alpha=-lr)`.

Why it matters
--------------
When a gradient overflows, loss scaling skips the optimizer's step. Here is no step that could be skipped: infinities
would go into the parameters, once and for all.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    for step in range(3):
        model.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad

Hint
----
Let `torch.optim.SGD(model.parameters(), lr=...)` make the same update.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP208"
NAME = "manual-update"
MESSAGE = "parameters are changed by hand from these gradients: no optimizer is there to skip the step on overflow"
HINT = "let an optimizer make the update: torch.optim.SGD does the same as `w -= lr * w.grad`"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every update made by hand."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
