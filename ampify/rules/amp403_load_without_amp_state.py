"""The optimizer's state is restored from a checkpoint, the loss scale is not.

What it does
------------
Restores amp's state beside the optimizer's, if the checkpoint has it: older checkpoints load as before. Where the
checkpoint is no plain name that can be asked for another key, or is gone over key by key, it only reports. One that
holds the states of several optimizers holds one state of amp, which is loaded once, after the last of them.

Why it matters
--------------
A resumed run would start with the initial loss scale, and skip steps until it has fallen again.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoint = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1).state_dict()}
    optimizer.load_state_dict(checkpoint["optimizer"])
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()

After
-----
    import torch
    from ampify_runtime import amp

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    checkpoint = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1).state_dict()}
    optimizer.load_state_dict(checkpoint["optimizer"])
    if "amp" in checkpoint:
        amp.load_state_dict(checkpoint["amp"])
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()

Fix safety
----------
Safe: a checkpoint without amp's state is read as it was.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import InsertAfter
from ampify.model.finding import Finding
from ampify.model.project import Project, StateLoad, TrainingLoop
from ampify.model.settings import Settings
from ampify.rules.migration import CONDITIONAL_AMP, migrating, quoted

CODE = "AMP403"
NAME = "load-without-amp-state"
TARGET = "runtime"
MESSAGE = "the optimizer's state is restored here without amp's: the loss scale starts anew"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every load of optimizer state without amp's."""
    for loop in project.loops:
        for load in loop.loads:
            if not load.present:
                yield _finding(project, settings, loop, load)


def _finding(project: Project, settings: Settings, loop: TrainingLoop, load: StateLoad) -> Finding:
    path = load.site.path
    amp = project.amp(path)
    if load.statement is None or load.source is None or load.reader(loaded=True) is not None:
        hint = f"where the checkpoint holds it, call {amp}.load_state_dict(...) after this"
        return Finding(CODE, NAME, load.site, MESSAGE, hint, loop=loop.id)
    key = quoted(project, path, "amp")
    state = f"{load.source}.pop({key})" if load.popped else f"{load.source}[{key}]"
    code = f"if {key} in {load.source}:\n    {amp}.load_state_dict({state})"
    fix = migrating(project, settings, loop, path, InsertAfter(load.statement, code))
    hint = "" if fix else CONDITIONAL_AMP
    return Finding(CODE, NAME, load.site, MESSAGE, hint, fix, loop=loop.id)
