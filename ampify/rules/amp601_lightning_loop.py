"""PyTorch Lightning runs the training.

What it does
------------
Refuses what trains in a file that imports `lightning` or `pytorch_lightning`. Where the file has no backward and no
step of its own, it is said all the same that nothing is to be migrated there, unless the trainer is in the files
given: then AMP611 speaks of its precision.

Why it matters
--------------
Lightning owns the loop and has mixed precision of its own, behind a single option. Scaling the loss as well would
scale it twice.

Before
------
    import lightning
    import torch


    class Regression(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, number):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)


Hint
----
Set the option where the trainer is made: `Trainer(precision="16-mixed")`, or "bf16-mixed".
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import PRECISIONS, has_setting
from ampify.rules.refusal import refusals, refusals_of_sites

CODE = "AMP601"
NAME = "lightning-loop"
MESSAGE = "PyTorch Lightning runs the training here and has mixed precision of its own"
HINT = 'set Trainer(precision="16-mixed"), or "bf16-mixed"'


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A finding for every file that trains with Lightning."""
    if settings.opt_level in PRECISIONS and has_setting(project, NAME):
        return refusals_of_sites(project, CODE, NAME, MESSAGE, HINT)
    return refusals(project, CODE, NAME, MESSAGE, HINT)
