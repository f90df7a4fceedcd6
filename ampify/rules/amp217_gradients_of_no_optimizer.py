"""Gradients are clipped or read of parameters that no optimizer steps.

What it does
------------
Refuses a loop that, between backward and step, clips or reads the gradients of parameters that none of its optimizers
was given: a clip of `model.parameters()` where the optimizer has those of a part of it, or some by their names. Where
it cannot be told whether the optimizer has them all (several groups chosen by name, or a program that freezes
parameters), it points to the place and the loop is migrated. Groups by a condition and its opposite, and a filter by
`requires_grad`, are known to leave nothing out.

Why it matters
--------------
The gradients of an optimizer's parameters are unscaled, by amp and by torch's scaler alike; those of all others keep
the loss scale, 65536 at first. A norm over both is thousands of times too large, and a clip by it leaves next to
nothing of the step: the model no longer trains, without an error.

Before
------
    import torch

    trunk = torch.nn.Linear(4, 4)
    head = torch.nn.Linear(4, 1)
    model = torch.nn.Sequential(trunk, head)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()

Hint
----
Clip what the optimizer was given, or put the gradients of the rest off with `requires_grad_(False)`, which saves their
computation as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP217"
NAME = "gradients-of-no-optimizer"
MESSAGE = "no optimizer here was given all of these parameters: the gradients of the others keep the loss scale"
DOUBT = "the optimizer may not have all of these parameters: the gradients of any that it lacks keep the loss scale"
HINT = "take those that the optimizer was given, or freeze the rest: requires_grad_(False)"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A refusal of every loop that surely takes such gradients, and a finding where it may."""
    yield from refusals(project, CODE, NAME, MESSAGE, HINT)
    for loop in project.loops:
        for place in loop.strays:
            yield Finding(CODE, NAME, place, DOUBT, HINT, loop=loop.id)
