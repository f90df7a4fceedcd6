"""Gradients are clipped or stepped inside the block of `amp.scale_loss`, where they are still scaled.

What it does
------------
Refuses a loop with a clip or an optimizer's step inside `with amp.scale_loss(...)`.

Why it matters
--------------
Gradients are unscaled when the block ends. A clip inside bounds them by a bound that is thousands of times too small,
and a step inside takes a stride that is thousands of times too long.

Before
------
    import torch
    from ampify_runtime import amp

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
            torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()

Hint
----
Move it behind the block. Results will differ from those that were had with it inside.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP216"
NAME = "used-before-block-ends"
MESSAGE = "these gradients are still scaled: amp.scale_loss unscales them when its block ends"
HINT = "move this behind the block"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop that clips or steps inside the block of its scaled loss."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
