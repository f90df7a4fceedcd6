"""No function holds both the model and its optimizer once they are ready.

What it does
------------
Refuses a training loop whose model and optimizer never meet under names of their own: the place where
`amp.initialize(model, optimizer)` would go does not exist.

Why it matters
--------------
`amp.initialize` needs both, before the first backward. Passing one of them along is a change of the script's design,
which is its author's to make.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    for step in range(3):
        model.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()

Hint
----
Build model and optimizer in one function before the loop, give each a name, or pass the model to where the optimizer
is built.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP102"
NAME = "no-place-to-initialize"
MESSAGES = {"runtime": "amp.initialize has no place", "native": "a scaler has no place"}
HINT = "build both in one function before the loop, or pass the model to where the optimizer is built"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop whose model and optimizer never meet."""
    return refusals(project, CODE, NAME, MESSAGES[settings.target], HINT)
