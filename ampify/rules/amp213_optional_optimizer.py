"""The optimizer that a backward feeds does not always exist.

What it does
------------
Refuses a loop whose optimizer may be None at the backward, or is built only under a condition that the step stands
under and the backward does not.

Why it matters
--------------
`amp.scale_loss(loss, optimizer)` needs an optimizer whenever the backward runs.

Before
------
    import sys

    import torch

    training = "--evaluate" not in sys.argv
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if training else None
    for step in range(3):
        model.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        if optimizer is not None:
            optimizer.step()

Hint
----
Put backward and step under the same condition.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP213"
NAME = "optional-optimizer"
MESSAGE = "the optimizer that this backward feeds does not always exist"
HINT = "put the backward under the same condition as the step"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal for every optimizer that may be missing."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
