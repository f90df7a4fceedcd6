"""The probabilities that a binary cross entropy is given come from code that runs in half precision.

What it does
------------
Reports each loop whose loss takes probabilities. The loss itself is computed in float32 (AMP301); the sigmoid before it
is the model's own and is left as it is.

Why it matters
--------------
In float16 a sigmoid rounds to 1 for logits from about 8 on. The gradient of the loss there, about 1 / (1 - p), then
overflows on its way back through the sigmoid, and steps are skipped: measured with logits of 10 against a target of 0,
every step was.

Before
------
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid())
    criterion = torch.nn.BCELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = criterion(model(torch.ones(2, 4)), torch.ones(2, 1))
        loss.backward()
        optimizer.step()

Hint
----
Return logits and use `binary_cross_entropy_with_logits`, or call the sigmoid through `amp.float_function`, as in
`amp.float_function(torch.sigmoid)(logits)`. Opt level O4 (bfloat16) does not overflow, but rounds sooner.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding, Related
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP302"
NAME = "half-precision-sigmoid"
MESSAGE = (
    "this loss takes probabilities: a sigmoid in half precision rounds to 0 or 1 for logits beyond 8, and the gradient "
    "overflows there"
)
HINT = "use binary_cross_entropy_with_logits, or compute the sigmoid by amp.float_function(torch.sigmoid)(logits)"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """One finding a loop, at the first such loss; it forbids nothing."""
    for loop in project.loops:
        if loop.cross_entropies:
            first, *others = loop.cross_entropies
            related = tuple(Related(other.call, "as here") for other in others)
            yield Finding(CODE, NAME, first.call, MESSAGE, HINT, loop=loop.id, related=related)
