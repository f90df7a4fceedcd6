"""A script takes from NVIDIA apex what torch has itself.

What it does
------------
With `--target native`, names torch's successor of each class and function of apex that is used, and puts it there with
the defaults that differ written out: `FusedAdam` is `torch.optim.AdamW` with `weight_decay=0.0`, apex's
`DistributedDataParallel` is torch's with `broadcast_buffers=False`. Imports of apex go, and so does a `try` that was
there for them alone. What torch has no successor of stays (AMP512).

Why it matters
--------------
apex must be built for the CUDA of each machine, and its current version has no `amp` at all.

Before
------
    import torch
    from apex.optimizers import FusedAdam

    model = torch.nn.Linear(4, 1)
    optimizer = FusedAdam(model.parameters(), 1e-3, True, (0.9, 0.95), set_grad_none=True)

After
-----
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.95), weight_decay=0.0)

Fix safety
----------
Safe: each successor computes the same from these arguments, up to rounding: under mixed precision torch's layer norms
leave float32 where apex's left float16. The state of a module has the same keys. What a `FusedAdam` has saved is given
the steps of each parameter, which apex counts by group, where it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.apex import ApexFile, ApexMention
from ampify.model.edit import Fix
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.apex_core import Core, core
from ampify.rules.apex_fates import Fates, Taken, fates
from ampify.rules.apex_imports import import_edits
from ampify.rules.apex_states import reading_edits

CODE = "AMP511"
NAME = "apex-dependency"
TARGET = "native"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every mention of apex that torch has a successor of, and for every import that goes."""
    for group in project.apex:
        amp = core(project, settings, group)
        moved: list[ApexMention] = []
        for file in group.files:
            found = fates(project.files[file.path], file, amp.decided, amp.gone)
            moved += (taken.mention for taken in found.taken)
            yield from (_mention(amp.group, taken) for taken in found.taken if taken.edits)
            yield from _imports(project, amp, file, found)
        yield from _loads(project, amp, moved)


def _mention(group: str, taken: Taken) -> Finding:
    message = f"{taken.mention.dotted} is NVIDIA apex's; {taken.dotted} takes its place"
    return Finding(CODE, NAME, taken.mention.anchor, message, fix=Fix(taken.edits, group=group))


def _loads(project: Project, amp: Core, moved: list[ApexMention]) -> Iterator[Finding]:
    calls = {mention.call for mention in moved}
    for load in project.apex_loads:
        if load.made & calls:
            edits = reading_edits(load, moved, project.files[load.call.path].quote)
            if isinstance(edits, str):
                message = f"torch's optimizer does not read here what apex's saved: {edits}"
                yield Finding(CODE, NAME, load.call, message, "put that into older checkpoints before they are loaded")
            else:
                message = "older checkpoints hold the state of an optimizer of NVIDIA apex; torch's reads it with steps"
                yield Finding(CODE, NAME, load.call, message, fix=Fix(edits, group=amp.group))


def _imports(project: Project, amp: Core, file: ApexFile, found: Fates) -> Iterator[Finding]:
    edits = import_edits(project.files[file.path], file, found.imports, amp.gone)
    if edits:
        names = [n.dotted for s in file.imports for n in s.names if n.apex and n.bound in found.imports]
        message = f"{', '.join(dict.fromkeys(names))} need no longer be imported from NVIDIA apex"
        anchor = next(s.anchor for s in file.imports if any(n.bound in found.imports for n in s.names if n.apex))
        yield Finding(CODE, NAME, anchor, message, fix=Fix(edits, group=amp.group))
