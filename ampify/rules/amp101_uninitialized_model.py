"""A model and its optimizer are trained without `amp.initialize`.

What it does
------------
Finds the function that holds both the model and the optimizer and hands them to `amp.initialize`: after the statement
that builds the optimizer and after the model is on its device, before schedulers, parallel wraps, loading of
optimizer state, and the first use in a loop. If they are born in different functions, that is the nearest caller that
holds both. If the optimizer is built after a parallel wrap, the call follows the optimizer, which is right wherever
nothing of the model is cast (`O0`, `O1`, `O4`).

Why it matters
--------------
Without it nothing runs in reduced precision, and `amp.scale_loss` has no scale to work with.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).mean().backward()
        optimizer.step()
        scheduler.step()

After
-----
    import torch
    from ampify_runtime import amp

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for step in range(3):
        optimizer.zero_grad()
        with amp.scale_loss(model(torch.ones(2, 4)).mean(), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        scheduler.step()

Fix safety
----------
Safe: `amp.initialize` returns the objects it is given, and `AMPIFY_OPT_LEVEL=O0` makes it do nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ampify.model.edit import Edit, InsertAfter, InsertBefore
from ampify.model.finding import Finding
from ampify.model.project import Flag, Initialize, Project, TrainingLoop
from ampify.model.settings import Settings
from ampify.rules.migration import CONDITIONAL_AMP, loss_number, migrating, quoted

CODE = "AMP101"
NAME = "uninitialized-model"
TARGET = "runtime"
WHERE_ON = "call amp.initialize under the condition that the backward is scaled under"
HELP = "mixed precision: O0 (off), O1 (float16) or O4 (bfloat16)"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every place that builds what a loop trains and does not hand it to amp."""
    for loop in project.loops:
        for place in loop.initializes:
            if not place.present and place.beside is None:
                yield _finding(project, settings, loop, place)


def _finding(project: Project, settings: Settings, loop: TrainingLoop, place: Initialize) -> Finding:
    names = " and ".join((*place.models, *place.optimizers))
    message = f"{names} are trained, but never handed to amp.initialize"
    edits: list[Edit] = [InsertAfter(place.anchor, _call(project, settings, loop, place))]
    if settings.add_flag and place.flag is not None and not place.flag.declared:
        edits.append(InsertBefore(place.flag.parse, _option(project, settings, place.flag)))
    if any(backward.off for backward in loop.backward_calls):
        return Finding(CODE, NAME, place.anchor, message, WHERE_ON, refuses=True, loop=loop.id)
    # Where amp is on by a condition, only the author can say that it is for these, too.
    bound = loop.switched and place.anchor.path in project.may_import_amp
    fix = None if bound else migrating(project, settings, loop, place.anchor.path, *edits)
    hint = "" if fix else CONDITIONAL_AMP
    return Finding(CODE, NAME, place.anchor, message, hint, fix, refuses=fix is None, loop=loop.id)


def _call(project: Project, settings: Settings, loop: TrainingLoop, place: Initialize) -> str:
    path = place.anchor.path
    models, optimizers = _shape(place.models), _shape(place.optimizers)
    flagged = settings.add_flag and place.flag is not None
    level = place.flag.expression if flagged and place.flag else quoted(project, path, settings.opt_level)
    arguments = [models, optimizers, f"opt_level={level}"]
    if loss_number(loop, loop.backward_calls[0].call) is not None:
        arguments.append(f"num_losses={len(loop.backward_calls)}")
    call = f"{project.amp(path)}.initialize({', '.join(arguments)})"
    # `self`, or a name of an outer scope, is none to bind anew; the objects stay the same.
    return call if place.bare or "self" in place.models else f"{models}, {optimizers} = {call}"


def _option(project: Project, settings: Settings, flag: Flag) -> str:
    """The statement that declares `--opt-level`."""
    option, level, words = (
        quoted(project, flag.parse.path, text) for text in ("--opt-level", settings.opt_level, HELP)
    )
    return f"{flag.parser}.add_argument({option}, default={level}, help={words})"


def _shape(names: Sequence[str]) -> str:
    """One name, or a list of them: amp.initialize returns what it is given in the same shape."""
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"
