"""A backward that feeds an optimizer's step runs on a loss that is not scaled.

What it does
------------
Puts the backward under `amp.scale_loss`, with the optimizers whose step consumes its gradients, as the code there names
them. Arguments of the backward are kept. Where the loop has several optimizers, each backward gets a scaler of its own
(`loss_id`), so that an overflow of one loss does not lower the scale of another. Where a present `amp.initialize`
stands under a condition that can be asked at the backward, the loss is scaled under that condition.

Why it matters
--------------
Gradients of float16 tensors below 6e-8 become zero. Scaling the loss keeps them, and the block unscales them at its end
and skips the step if one of them overflowed.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        loss = model(torch.ones(2, 4)).mean() / 2
        loss.backward(retain_graph=False)  # accumulates
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()

After
-----
    import torch
    from ampify_runtime import amp

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for step in range(4):
        loss = model(torch.ones(2, 4)).mean() / 2
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward(retain_graph=False)  # accumulates
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()

Fix safety
----------
Safe: gradients read the same after the block as they did after the plain backward.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.anchor import Anchor
from ampify.model.edit import AddImport, Fix, Replace, Wrap
from ampify.model.finding import Finding
from ampify.model.project import BackwardCall, Project, TrainingLoop
from ampify.model.settings import Settings
from ampify.rules.migration import CONDITIONAL_AMP, loss_number, migrating

CODE = "AMP201"
NAME = "unscaled-backward"
TARGET = "runtime"
# What hands on the plain loss where amp is off.
PLAIN = "nullcontext"
# What stands for the scaled loss where amp is off.
PLAIN = "nullcontext"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every backward of a loop that is not scaled yet."""
    for loop in project.loops:
        for backward in loop.backward_calls:
            if not backward.scaled and not backward.off and backward.statement is not None:
                yield _finding(project, settings, loop, backward, backward.statement)


def _finding(
    project: Project, settings: Settings, loop: TrainingLoop, backward: BackwardCall, statement: Anchor
) -> Finding:
    fed = " and ".join(backward.optimizers) or "the optimizer"
    message = f"the gradients of this backward feed {fed}, but its loss is not scaled"
    header = f"with {_scaling(project, loop, backward)} as {backward.scaled_name}:"
    edits = (Wrap(statement, header), Replace(backward.loss, backward.scaled_name))
    if loop.switched and backward.guard is not None:
        guarded = _guarded(project, loop, backward, statement, backward.guard)
        return Finding(CODE, NAME, backward.call, message, fix=guarded, loop=loop.id)
    if loop.switched:
        hint = "scale it where amp is on: under the condition that amp.initialize is called under"
        return Finding(CODE, NAME, backward.call, message, hint, refuses=True, loop=loop.id)
    fix = migrating(project, settings, loop, backward.call.path, *edits)
    hint = "" if fix else CONDITIONAL_AMP
    return Finding(CODE, NAME, backward.call, message, hint, fix, refuses=fix is None, loop=loop.id)


def _guarded(project: Project, loop: TrainingLoop, backward: BackwardCall, statement: Anchor, guard: str) -> Fix:
    """The fix where `amp.initialize` is there already, under a condition."""
    facts = project.files[backward.call.path]
    importing = AddImport(facts.path, "contextlib", PLAIN, f"amp_{PLAIN}" if PLAIN in facts.names else None)
    header = f"with {_scaling(project, loop, backward)} if {guard} else {importing.bound}({backward.loss_text})"
    wrap = Wrap(statement, f"{header} as {backward.scaled_name}:")
    return Fix((importing, wrap, Replace(backward.loss, backward.scaled_name)), group=loop.id)


def _scaling(project: Project, loop: TrainingLoop, backward: BackwardCall) -> str:
    walrus = backward.loss.kind == "NamedExpr"
    arguments = [f"({backward.loss_text})" if walrus else backward.loss_text]
    if len(backward.optimizers) > 1:
        arguments.append(f"[{', '.join(backward.optimizers)}]")
    else:
        arguments += backward.optimizers
    number = loss_number(loop, backward.call)
    if number is not None:
        arguments.append(f"loss_id={number}")
    return f"{project.amp(backward.call.path)}.scale_loss({', '.join(arguments)})"
