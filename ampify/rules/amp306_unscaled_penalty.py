"""The size of gradients that `torch.autograd.grad` computes is part of a loss: a gradient penalty.

What it does
------------
Reports each call of `torch.autograd.grad` with `create_graph` that differentiates by inputs and whose result enters the
loss by its norm or square, as in WGAN-GP or R1. The loop is migrated; the call is left as it is, outside of any scaled
block, so that the penalty has the value it had. With `--target native` the forward that it differentiates stays out of
autocast as well. Other uses of `torch.autograd.grad` are refused (AMP206).

Why it matters
--------------
These gradients pass through the model in the precision that its forward ran in, and nothing scales them. A penalty
keeps them near a size that float16 can hold; parts of them below 6e-8 are lost all the same, which a norm hardly feels.
In float32 nothing is lost, and nothing is gained in speed.

Before
------
    import torch

    critic = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for step in range(3):
        inputs = torch.rand(2, 4, requires_grad=True)
        scores = critic(inputs).sum()
        (gradient,) = torch.autograd.grad(scores, inputs, create_graph=True)
        loss = -scores + (gradient.norm(dim=1) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

Hint
----
Compare a short run. To be sure, compute the penalty's own forward in float32, under `amp.disable_casts()`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP306"
NAME = "unscaled-penalty"
MESSAGE = "this gradient enters the loss by its size; it is computed unscaled, in the precision of the model's forward"
HINT = "compare a short run, or compute the forward of the penalty in float32, under amp.disable_casts()"
WIDE_MESSAGE = "this gradient enters the loss by its size, and nothing scales it: the forward of it stays in float32"
WIDE_HINT = "nothing is to be done; what is computed for the penalty gains no speed"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every gradient penalty; it forbids nothing."""
    native = settings.target == "native"
    # Where there is no plan, AMP231 tells why; one on the runtime stays there.
    leaving = {name for group in project.apex for name in group.loops}
    for loop in project.loops:
        planned = loop.scaling is not None or (loop.apex is not None and loop.id in leaving)
        for place in loop.penalties if planned or not native else ():
            message, hint = (WIDE_MESSAGE, WIDE_HINT) if native else (MESSAGE, HINT)
            yield Finding(CODE, NAME, place, message, hint, loop=loop.id)
