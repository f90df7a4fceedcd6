"""The gradient of an input is read after a backward that also trains.

What it does
------------
Refuses a loop in which `.grad` of something that is not known to be a model's parameter is read after a backward whose
gradients a step consumes, as in adversarial training "for free" or a saliency loss, or where a script keeps master
parameters by hand.

Why it matters
--------------
The backward would run on a scaled loss. Parameters are unscaled at the end of the block, inputs are not: the script
would read a gradient thousands of times too large, or infinite.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    noise = torch.zeros(2, 4, requires_grad=True)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4) + noise).pow(2).mean()
        loss.backward()
        optimizer.step()
        noise = (noise.detach() + 0.1 * noise.grad.sign()).requires_grad_()

Hint
----
Take the input's gradient in a backward of its own and clear the model's gradients after it, before the backward that
trains; the first is then no training and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP203"
NAME = "input-gradient-read"
MESSAGE = (
    "the gradient read here is of nothing known to be a model's parameter, and the backward before it also trains: on "
    "a scaled loss this may read a scaled gradient"
)
HINT = "take this gradient in a backward of its own, with a zero_grad between it and the backward that trains"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop that reads an input's gradient."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
