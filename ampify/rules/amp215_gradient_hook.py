"""A hook sees gradients during the backward, while they are scaled.

What it does
------------
Refuses a loop in a program that registers a hook on gradients: `register_hook`, `register_post_accumulate_grad_hook`,
`register_full_backward_hook` and the like.

Why it matters
--------------
A hook runs inside the backward, where gradients still bear the loss scale. One that clips them, compares them with a
number or records them would do something else than it did, and no error would tell.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()

Hint
----
Do the hook's work on `.grad` between the backward and the step, for instance with `clip_grad_value_`, and run ampify
again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP215"
NAME = "gradient-hook"
MESSAGE = "this hook runs inside the backward, where it would see scaled gradients"
HINT = "do its work on .grad between the backward and the step (clip_grad_value_ clips there), or take the hook away"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop whose program hooks into gradients."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
