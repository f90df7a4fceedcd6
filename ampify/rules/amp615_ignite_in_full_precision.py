"""A supervised trainer of PyTorch Ignite is made without a mode of mixed precision.

What it does
------------
Gives `create_supervised_trainer(...)` the mode `amp_mode="amp"` and a scaler, at O1. Ignite has none for
other levels.

Why it matters
--------------
The trainer that is made owns the step. It casts and scales by itself once it is told to.

Before
------
    import torch
    from ignite.engine import create_supervised_trainer

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = create_supervised_trainer(model, optimizer, torch.nn.MSELoss())

After
-----
    import torch
    from ignite.engine import create_supervised_trainer

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = create_supervised_trainer(model, optimizer, torch.nn.MSELoss(), amp_mode="amp", scaler=True)

Fix safety
----------
Unsafe: handlers that read or clip gradients would see scaled ones, and the scale is in no checkpoint of the trainer.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import adding, calls, given, unpacks

CODE = "AMP615"
NAME = "ignite-in-full-precision"
MESSAGE = "this trainer computes in float32: no mode of mixed precision is set"
# So many arguments stand before the mode in every version that has it.
MOST = 8


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every supervised trainer without a mode."""
    for facts, call, _ in calls(project, ("ignite",), frozenset({"create_supervised_trainer"})):
        # The mode has a different position in different versions.
        if settings.opt_level != "O1" or given(call, "amp_mode", "scaler") or unpacks(call) or len(call.args) > MOST:
            continue
        anchor, quote = facts.anchor(call), facts.quote
        codes = {"float16": (f"amp_mode={quote}amp{quote}", "scaler=True")}
        yield Finding(CODE, NAME, anchor, MESSAGE, fix=adding(settings, anchor, codes, "unsafe"))
