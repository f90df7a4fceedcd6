"""An optimizer is trained beside others that `amp.initialize` was given, and was left out.

What it does
------------
Refuses a loop in which a call of `amp.initialize` was given some of the optimizers that are stepped, but not all.

Why it matters
--------------
The gradients of the one left out are scaled with the others and never unscaled: `amp.scale_loss` refuses it, or, if it
is not given there either, it steps with gradients that are thousands of times too large.

Before
------
    import torch
    from ampify_runtime import amp

    body, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    slow = torch.optim.SGD(body.parameters(), lr=0.1)
    fast = torch.optim.SGD(head.parameters(), lr=0.5)
    body, slow = amp.initialize(body, slow, opt_level="O1")
    for step in range(3):
        slow.zero_grad()
        fast.zero_grad()
        loss = head(body(torch.ones(2, 4))).mean()
        with amp.scale_loss(loss, slow) as scaled_loss:
            scaled_loss.backward()
        slow.step()
        fast.step()

Hint
----
Give all at once: `[body, head], [slow, fast] = amp.initialize([body, head], [slow, fast])`, and both optimizers to
`amp.scale_loss`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding, Related
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP105"
NAME = "optimizer-left-out"
TARGET = "runtime"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A refusal for every optimizer that a call of `amp.initialize` in its run was not given."""
    for loop in project.loops:
        for place in loop.initializes:
            if place.beside is not None:
                names = " and ".join(place.optimizers)
                message = f"{names} is trained too, and was not given to this amp.initialize"
                hint = f"give {names} to it as well, in a list with the others, and to amp.scale_loss"
                related = (Related(place.anchor, f"{names} is ready here"),)
                yield Finding(CODE, NAME, place.beside, message, hint, refuses=True, loop=loop.id, related=related)
