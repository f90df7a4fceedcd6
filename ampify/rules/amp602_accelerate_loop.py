"""Hugging Face Accelerate runs the backward.

What it does
------------
Refuses what trains in a file that imports `accelerate`. Where the file has no backward and no step of its own but makes
an `Accelerator`, it is said all the same that nothing is to be migrated there.

Why it matters
--------------
`accelerator.backward` scales the loss by itself where mixed precision is on, and the prepared optimizer unscales.
Scaling it here as well would scale it twice.

Before
------
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4, device=accelerator.device)).mean()
        accelerator.backward(loss)
        optimizer.step()

Hint
----
Set the option where the accelerator is made: `Accelerator(mixed_precision="fp16")`, or "bf16".
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP602"
NAME = "accelerate-loop"
MESSAGE = "Hugging Face Accelerate runs the backward here and has mixed precision of its own"
HINT = 'set Accelerator(mixed_precision="fp16"), or "bf16"'


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every file that trains with Accelerate."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
