"""An optimizer steps on gradients that come from nowhere in view.

What it does
------------
Refuses a step that no backward in the files given leads to.

Why it matters
--------------
The gradients are set by hand, as here, or by a backward in another file. Whether they are scaled cannot be known.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.ones(2, 4)).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), gradients):
            parameter.grad = gradient
        optimizer.step()

Hint
----
Give ampify the files that compute the gradients as well, in one run. Gradients set by hand need no migration.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP212"
NAME = "step-without-backward"
MESSAGE = "no backward in the files given leads to this step: where its gradients come from is not known"
HINT = (
    "add the file that calls backward() to the run; if gradients are set by hand, put `# ampify: ignore[AMP212]` here"
)


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every step without a backward."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
