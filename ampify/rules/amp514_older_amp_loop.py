"""A training loop is in an older interface of apex's amp: `amp.init`, or an `FP16_Optimizer`.

What it does
------------
Refuses such a loop with `--target native`, and names what comes nearest; one on an `FP16_Optimizer` of `fp16_utils` is
written for torch where all of it is understood (AMP513), and refused with the reason where not. With `--target runtime`
its imports move (AMP502): the runtime has `amp.init` with its handles and trainers, and `fp16_utils`. For either
target, a loop is refused that scales some of its losses by such an interface, and not all.

Why it matters
--------------
What these cast, and keep in float32, is neither what autocast does nor what `amp.initialize` does; both together would
scale twice.

Before
------
    import torch
    from ampify_runtime import amp

    handle = amp.init()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        with handle.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        model.weight.norm().backward()
        optimizer.step()

Hint
----
Scale all losses in the same way. To leave apex for torch, write out what is named there.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP514"
NAME = "older-amp-loop"
MESSAGE = "this training loop is in an older interface of amp"
HINT = "write that out by hand, or use --target runtime, where it goes by the same names"
_BARE = "scale this loss as the others are scaled, and run ampify again"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop that cannot stay in such an interface, or cannot leave it."""
    hint = HINT if settings.target == "native" else _BARE
    return refusals(project, CODE, NAME, MESSAGE, hint)
