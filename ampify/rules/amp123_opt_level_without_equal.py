"""An opt level was asked for that torch's own mixed precision does not have.

What it does
------------
With `--target native` it refuses every loop at `O2`, `O3` and `O5`: levels that turn the model's parameters into half
precision, with master parameters or without.

Why it matters
--------------
`torch.autocast` and `GradScaler` keep parameters in float32. What comes closest is `O1`, or `O4` for bfloat16, and
trains otherwise.

Before
------
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4, device=device)).mean()
        loss.backward()
        optimizer.step()

Hint
----
Choose `--opt-level O1`, `O4` (bfloat16) or `O0` (off), or `--target runtime`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.scaling import CASTS

CODE = "AMP123"
NAME = "opt-level-without-equal"
TARGET = "native"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A refusal of every loop at such a level."""
    if settings.opt_level in CASTS:
        return
    message = f"torch's own mixed precision has nothing like {settings.opt_level}, which casts parameters"
    hint = "choose --opt-level O1, O4 (bfloat16) or O0 (off), or --target runtime"
    for loop in project.loops:
        if not loop.migrated:
            yield Finding(CODE, NAME, loop.anchor, message, hint, refuses=True, loop=loop.id)
