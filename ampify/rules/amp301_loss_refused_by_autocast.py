"""Binary cross entropy on probabilities raises an error under autocast on CUDA.

What it does
------------
Calls `F.binary_cross_entropy`, or a `BCELoss` object, through `amp.float_function`: its inputs are taken as float32 and
nothing in it is cast.

Why it matters
--------------
Torch refuses the operation in mixed precision, since the gradient of a probability near 0 or 1 does not fit float16.
The mathematics stays as it is. A sigmoid in float16 still rounds to 0 or 1 sooner than one in float32: where the model
may return logits, `binary_cross_entropy_with_logits` is the better loss.

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

After
-----
    import torch
    from ampify_runtime import amp

    model = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid())
    criterion = torch.nn.BCELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for step in range(3):
        optimizer.zero_grad()
        loss = amp.float_function(criterion)(model(torch.ones(2, 4)), torch.ones(2, 1))
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()

Fix safety
----------
Safe: the loss is computed in float32, as it was. What becomes of the sigmoid before it is AMP302's matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import Replace
from ampify.model.finding import Finding
from ampify.model.project import BinaryCrossEntropy, Project, TrainingLoop
from ampify.model.settings import Settings
from ampify.rules.migration import CONDITIONAL_AMP, migrating

CODE = "AMP301"
NAME = "loss-refused-by-autocast"
TARGET = "runtime"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every such call that runs in a script with a loop to migrate."""
    for loop in project.loops:
        for loss in loop.cross_entropies:
            yield _finding(project, settings, loop, loss)


def _finding(project: Project, settings: Settings, loop: TrainingLoop, loss: BinaryCrossEntropy) -> Finding:
    path = loss.call.path
    message = f"{loss.function_text} takes probabilities, which autocast on CUDA refuses"
    hint = "where the model may return logits, binary_cross_entropy_with_logits is the better loss"
    code = f"{project.amp(path)}.float_function({loss.function_text})"
    fix = migrating(project, settings, loop, path, Replace(loss.function, code))
    return Finding(
        CODE, NAME, loss.call, message, hint if fix else CONDITIONAL_AMP, fix, refuses=fix is None, loop=loop.id
    )
