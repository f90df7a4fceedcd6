"""A step, or the optimizer that a backward feeds, cannot be followed to where it is built.

What it does
------------
Refuses a loop, or a backward and a step, whose optimizer is not found in the files given, and says where the trail
ends.

Why it matters
--------------
`amp.initialize` and `amp.scale_loss` need that very optimizer. Guessing another would unscale the wrong gradients.

Before
------
    import torch


    def train(model, optimizer, batches):
        for batch in batches:
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()

Hint
----
Give ampify the files that build the optimizer as well, in one run, or build it by its class where ampify can follow.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP207"
NAME = "unresolved-optimizer"
MESSAGE = "it cannot be told which optimizer is at work here"
HINT = "add the files that build the optimizer to the run, or build it where its class can be read"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal for every optimizer that cannot be followed."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
