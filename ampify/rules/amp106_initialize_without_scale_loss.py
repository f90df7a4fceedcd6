"""Models are initialized for amp, and no loss is scaled.

What it does
------------
Points to `amp.initialize` where no file given calls `amp.scale_loss`.

Why it matters
--------------
Small gradients of float16 become zero: the training goes on, and learns less than it should.

Before
------
    import torch
    from apex import amp

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()

Hint
----
Put each backward under `with amp.scale_loss(loss, optimizer) as scaled_loss:`; AMP201 says where.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import calls

CODE = "AMP106"
NAME = "initialize-without-scale-loss"
MESSAGE = "this prepares for mixed precision, and nothing in the files given scales a loss"
PACKAGES = ("apex", "ampify_runtime")
HINTS = {
    "runtime": "put each backward under `with amp.scale_loss(loss, optimizer) as scaled_loss:`",
    "native": "scale each loss; where this run does, it trains with gradients that were lost to float16 before",
}


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every initialize, if no file scales a loss."""
    if any("scale_loss" in facts.methods or "scale_loss" in facts.names for facts in project.files.values()):
        return
    for facts, call, dotted in calls(project, PACKAGES, frozenset({"initialize"})):
        if dotted.endswith("amp.initialize"):
            yield Finding(CODE, NAME, facts.anchor(call), MESSAGE, HINTS[settings.target])
