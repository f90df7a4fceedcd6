"""A backward call is part of a larger expression or statement.

What it does
------------
Refuses a loop in which the backward is no statement of its own: part of a conditional expression, an element of a
list, the body of a lambda.

Why it matters
--------------
`with amp.scale_loss(...)` takes statements. Pulling the call out of an expression may change what runs when.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward() if step else None
        optimizer.step()

Hint
----
Make the call a statement of its own: `if step: loss.backward()`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP211"
NAME = "backward-in-expression"
MESSAGE = "this backward is part of a larger expression, where no `with amp.scale_loss(...)` can go around it"
HINT = "make the backward call a statement of its own"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every backward that is no statement of its own."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
