"""A training runs under autocast in float16, and no loss is scaled.

What it does
------------
Points to an autocast for CUDA in a file that trains, where no file given has a `GradScaler` or mentions bfloat16.

Why it matters
--------------
Gradients below 6e-8 become zero in float16: the training goes on, and learns less than it should.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()

Hint
----
Scale the loss by a `torch.amp.GradScaler`, or give autocast `dtype=torch.bfloat16`, which needs none.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import calls

CODE = "AMP327"
NAME = "autocast-without-scaler"
MESSAGE = "this trains in float16, and nothing in the files given scales a loss"
# What shows that losses may be scaled, or need not be.
SCALING = ("GradScaler", "scale_loss", "bfloat16", "bf16", "loss_scale", "scaler")
HINT = "scale the loss by a torch.amp.GradScaler, or give autocast dtype=torch.bfloat16, which needs none"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every autocast beside a backward, if no file given scales or says bfloat16."""
    if any(word in line for facts in project.files.values() for line in facts.lines for word in SCALING):
        return
    for facts, call, dotted in calls(project, ("torch",), frozenset({"autocast"})):
        trains = {"backward", "step"} <= facts.methods
        if trains and not _elsewhere(call, dotted):
            yield Finding(CODE, NAME, facts.anchor(call), MESSAGE, HINT)


def _elsewhere(call: f.Call, dotted: str) -> bool:
    """Whether an autocast is off, or for a device on which it is bfloat16 by itself, as far as it can be read."""
    device = call.args[0] if call.args else dict(call.keywords).get("device_type")
    told = dotted.startswith("torch.cuda.") or (isinstance(device, f.Constant) and device.value == "cuda")
    return not told or any(name == "enabled" for name, _ in call.keywords) or dotted.startswith("torch.cpu.")
