"""A learning-rate scheduler steps before the optimizer does.

What it does
------------
Points to `scheduler.step()` that stands before `optimizer.step()` or `scaler.step(optimizer)`, beside it or beside the
loop that it is in. One that is given an epoch or a metric sets the rate by that and is passed over.

Why it matters
--------------
The first value of the schedule is skipped, as torch warns since 1.1. A loss scale makes it worse: the first steps are
mostly skipped while the scale finds its height, and the schedule runs ahead of the training.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        scheduler.step()
        scaler.step(optimizer)
        scaler.update()

Hint
----
Step the scheduler after the optimizer; where it counts batches, only if `scaler.get_scale()` did not fall in the
update.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import in_order, last_name
from ampify.model import facts as f
from ampify.model.finding import Finding, Related
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.reading import all_blocks, optimizer_steps, receiver

CODE = "AMP240"
NAME = "scheduler-before-step"
MESSAGE = "the scheduler steps before the optimizer does, so that it skips the first learning rate"
HINT = "step the scheduler after the optimizer; where it counts batches, only if the scale did not fall in the update"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every scheduler that steps first in a block in which an optimizer steps."""
    for facts in project.files.values():
        for scope in facts.scopes if "step" in facts.methods else ():
            for block in all_blocks(scope.body):
                yield from _early(facts, block)


def _early(facts: f.FileFacts, block: tuple[f.Stmt, ...]) -> Iterator[Finding]:
    """A block's schedulers that step before all optimizers of the block do."""
    for index, statement in enumerate(block):
        if any(optimizer_steps((statement,))):
            return
        call = _scheduling(statement)
        later = next(optimizer_steps(block[index + 1 :]), None) if call is not None else None
        if call is not None and later is not None:
            related = (Related(facts.anchor(later), "the optimizer steps here"),)
            yield Finding(CODE, NAME, facts.anchor(call), MESSAGE, HINT, related=related)


def _scheduling(statement: f.Stmt) -> f.Call | None:
    """The call by which a statement steps a scheduler, if there is one, as `if scheduler is not None` may ask."""
    if isinstance(statement, f.Branch) and len(statement.arms) == 2 and len(statement.arms[0]) == 1:
        asks = any("sched" in last_name(part).lower() for part, _ in in_order(statement.test))
        return _scheduling(statement.arms[0][0]) if asks else None
    call = statement.value if isinstance(statement, f.Evaluate) else None
    if not isinstance(call, f.Call) or call.args or call.keywords or last_name(call.func) != "step":
        return None
    return call if "sched" in receiver(call) else None
