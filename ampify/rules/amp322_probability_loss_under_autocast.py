"""A loss that takes probabilities is computed under autocast.

What it does
------------
Points to `binary_cross_entropy` and `BCELoss` inside of a `with` block of autocast.

Why it matters
--------------
On CUDA, autocast refuses it with RuntimeError: the logarithm of a probability in float16 is infinite too soon.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            score = torch.sigmoid(model(torch.ones(2, 4)))
            loss = torch.nn.functional.binary_cross_entropy(score, torch.ones(2, 1))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Hint
----
Give logits to binary_cross_entropy_with_logits, or compute this in float32 with autocast off.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.native import defects

CODE = "AMP322"
NAME = "probability-loss-under-autocast"
MESSAGE = "autocast on CUDA refuses this loss of probabilities"
HINT = "give logits to binary_cross_entropy_with_logits, or compute this in float32 with autocast off"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every place of the kind."""
    return defects(project, CODE, NAME, MESSAGE, HINT)
