"""The step that would use the gradients of a backward is not in the files given.

What it does
------------
Refuses a backward after which no optimizer's step is found, and that nothing shows to be no training.

Why it matters
--------------
If a step elsewhere consumes these gradients, it would take scaled gradients for real ones.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    for step in range(3):
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()

Hint
----
Give ampify the files that step as well, in one run. Where no step follows, as in a gradient check, leave the finding
or silence it with `# ampify: ignore[AMP205]`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP205"
NAME = "backward-without-step"
MESSAGE = "no step is seen to use the gradients of this backward"
HINT = "add the file that calls optimizer.step() to the run; if nothing steps, put `# ampify: ignore[AMP205]` here"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every backward whose step is out of view."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
