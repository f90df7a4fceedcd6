"""A scaler steps in two branches and is updated in one of them.

What it does
------------
Points to `scaler.step(optimizer)` in a branch without `scaler.update()`, where another branch of the same condition has
it and none comes after.

Why it matters
--------------
After that branch the scaler raises at its next step: step() has already been called since the last update().

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        if step:
            scaler.step(optimizer)
            scaler.update()
        else:
            scaler.step(optimizer)  # not updated

Hint
----
Call `scaler.update()` once after the condition, for all its branches.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.reading import all_blocks, method_calls, receiver, scaler_steps

CODE = "AMP241"
NAME = "scaler-updated-in-one-branch"
MESSAGE = "this branch steps by the scaler and does not update it, another one does"
HINT = "call scaler.update() once after the condition, for all its branches"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every arm that steps by a scaler and does not update it, where another arm does."""
    for facts in project.files.values():
        # A large file without a scaler would be walked over and over.
        named = any("scaler" in word.lower() for word in facts.read)
        for scope in facts.scopes if named and "update" in facts.methods else ():
            for block in all_blocks(scope.body):
                for index, statement in enumerate(block):
                    if isinstance(statement, f.Branch) and not _updates(block[index + 1 :]):
                        yield from _left_out(facts, statement)


def _left_out(facts: f.FileFacts, branch: f.Branch) -> Iterator[Finding]:
    if not any(_updates(arm) and any(scaler_steps(arm)) for arm in branch.arms):
        return
    for arm in branch.arms:
        step = next(scaler_steps(arm), None)
        if step is not None and not _updates(arm):
            yield Finding(CODE, NAME, facts.anchor(step), MESSAGE, HINT)


def _updates(body: tuple[f.Stmt, ...]) -> bool:
    return any("scaler" in receiver(call) for call in method_calls(body, "update"))
