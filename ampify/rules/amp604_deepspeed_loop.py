"""DeepSpeed runs the training.

What it does
------------
Refuses what trains in a file that imports `deepspeed`. Where the file has no backward and no step of its own but sets
up an engine, it is said all the same that nothing is to be migrated there.

Why it matters
--------------
The engine casts the model, scales the loss and steps on master weights by itself, as its configuration says. Scaling
the loss as well would scale it twice.

Before
------
    import deepspeed
    import torch

    model = torch.nn.Linear(4, 1)
    engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")
    for step in range(3):
        loss = engine(torch.ones(2, 4, device=engine.device)).mean()
        engine.backward(loss)
        engine.step()

Hint
----
Put `"fp16": {"enabled": true}` into the DeepSpeed configuration, or `"bf16"` in its place.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP604"
NAME = "deepspeed-loop"
MESSAGE = "DeepSpeed runs the training here and has mixed precision of its own"
HINT = 'put "fp16": {"enabled": true} into the DeepSpeed config, or "bf16" in its place'


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every file that trains with DeepSpeed."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
