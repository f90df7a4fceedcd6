"""Gradients that are accumulated for a later step are clipped after each backward.

What it does
------------
Points to a clip that runs in each round of a loop in which the optimizer steps only in each n-th round, by a condition
such as `(i + 1) % n == 0` further down in the same block. It forbids nothing by itself.

Why it matters
--------------
What is clipped is a sum that is not complete. It is scaled down, more is added, and it is scaled down again, so that
the first parts of a batch count less than the last, by how much depending on the bound. A scaler may unscale gradients
only once before each step, so with it there is no exact form of this.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        loss = model(torch.ones(2, 4)).mean() / 2
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if (step + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()

Hint
----
Clip under the condition that the step is under, right before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify import catalog
from ampify.index.syntax import calls, in_order, last_name
from ampify.model import facts as f
from ampify.model.finding import Finding, Related
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.reading import all_blocks, method_calls, optimizer_steps

CODE = "AMP243"
NAME = "clip-in-each-micro-step"
MESSAGE = "this clips gradients after each backward, while more are added to them before the optimizer steps"
HINT = "clip under the condition that the step is under, right before it"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every clip of a sum that is not complete."""
    for facts in project.files.values():
        for scope in facts.scopes if facts.names & catalog.CLIPS or facts.methods & catalog.CLIPS else ():
            for block in all_blocks(scope.body):
                yield from _early(facts, block)


def _early(facts: f.FileFacts, block: tuple[f.Stmt, ...]) -> Iterator[Finding]:
    """The clips of a block before the condition on which its optimizer steps."""
    for index, statement in enumerate(block):
        step = _counted_step(statement)
        before = block[:index]
        if step is None or any(optimizer_steps(before)):
            continue
        first = next(method_calls(before, "backward"), None)
        for clip in _clips(before):
            if first is not None and first.span < clip.span:
                related = (Related(facts.anchor(step), "the optimizer steps here, not in each round"),)
                yield Finding(CODE, NAME, facts.anchor(clip), MESSAGE, HINT, related=related)


def _counted_step(statement: f.Stmt) -> f.Call | None:
    """The step in a statement that asks for a remainder, and steps in no other case."""
    if not isinstance(statement, f.Branch) or not any(statement.arms):
        return None
    counts = any(isinstance(part, f.Operation) and part.operator == "Mod" for part, _ in in_order(statement.test))
    if not counts or any(any(optimizer_steps(arm)) for arm in statement.arms[1:]):
        return None
    return next(optimizer_steps(statement.arms[0]), None)


def _clips(body: tuple[f.Stmt, ...]) -> Iterator[f.Call]:
    return (call for call in calls(body) if last_name(call.func) in catalog.CLIPS)
