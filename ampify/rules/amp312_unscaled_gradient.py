"""A backward that is no part of training runs in half precision, and nothing scales it.

What it does
------------
Reports each backward that feeds no optimizer (a saliency map, an attack's own gradients, the Fisher information) and
may run after the `amp.initialize` of a loop. The loop is migrated; the backward is left as it is.

Why it matters
--------------
`amp.initialize` casts for all that the thread runs from then on, and `amp.scale_loss` scales what trains alone.
Gradients that pass through float16 unscaled are zero below 6e-8 and coarse below 6e-5.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.rand(2, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()

    image = torch.rand(2, 4, requires_grad=True)
    model(image).sum().backward()
    print(image.grad.abs())

Hint
----
Put that backward and its forward under `with amp.disable_casts():`, so that it is computed in float32 as before.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP312"
NAME = "unscaled-gradient"
TARGET = "runtime"
MESSAGE = "this backward is no part of training, so that nothing scales it; in half precision, small gradients are lost"
HINT = "put it and its forward under `with amp.disable_casts():`, or compare what it gives with a run at O0"
_FLOAT16_LEVELS = frozenset({"O1", "O2", "O3"})


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every backward that a loop's casts reach and that is no training; it forbids nothing."""
    if settings.opt_level not in _FLOAT16_LEVELS:
        return
    for loop in project.loops:
        for place in loop.unscaled if loop.native is None else ():
            yield Finding(CODE, NAME, place, MESSAGE, HINT, loop=loop.id)
