"""The backward is a method of some object, not of a tensor.

What it does
------------
Refuses `engine.backward(loss)`, `optimizer.backward(loss)` and the like.

Why it matters
--------------
What such a backward does is the object's own affair. It may scale the loss already, or run in another process.

Before
------
    import torch


    def train(engine, batches):
        for batch in batches:
            loss = engine(batch).mean()
            engine.backward(loss)
            engine.step()

Hint
----
Turn on mixed precision in the library that the object comes from, or call `loss.backward()`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP210"
NAME = "foreign-backward"
MESSAGE = "this backward is a method of an object that is no tensor, and what it does with the loss is not known"
HINT = "turn on mixed precision in the library this object comes from, or call loss.backward()"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every backward that is no tensor's."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
