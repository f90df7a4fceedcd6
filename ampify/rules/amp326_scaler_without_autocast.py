"""A loss is scaled, and nothing is computed in reduced precision.

What it does
------------
Points to a `GradScaler` where no file given uses autocast or casts to half precision.

Why it matters
--------------
Everything runs in float32: the scaler only adds work, and skips steps that float32 would not have had to skip.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Hint
----
Put the forward and the loss under `torch.autocast("cuda")`, or take the scaler out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import calls
from ampify.rules.reading import scaler_steps

CODE = "AMP326"
NAME = "scaler-without-autocast"
MESSAGE = "a scaler scales here, and nothing in the files given computes in reduced precision"
# What shows that something may be computed in float16.
HALVING = ("autocast", ".half(", "float16", "fp16", "HalfTensor")
HINT = "put the forward and the loss under torch.autocast, or take the scaler out"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every scaler, if nothing in the files given computes in float16."""
    if any(word in line for facts in project.files.values() for line in facts.lines for word in HALVING):
        return
    for facts, call, _ in calls(project, ("torch",), frozenset({"GradScaler"})):
        if any(name == "enabled" for name, _ in call.keywords) or not any(scaler_steps(_whole(facts))):
            continue
        yield Finding(CODE, NAME, facts.anchor(call), MESSAGE, HINT)


def _whole(facts: f.FileFacts) -> tuple[f.Stmt, ...]:
    return tuple(statement for scope in facts.scopes for statement in scope.body)
