"""A script takes from NVIDIA apex what torch has itself.

What it does
------------
With `--target native`, names torch's successor of each class and function of apex that is used, and puts it there with
the defaults that differ written out: `FusedAdam` is `torch.optim.AdamW` with `weight_decay=0.0`, apex's
`DistributedDataParallel` is torch's with `broadcast_buffers=False`. Imports of apex go, and so does a `try` that was
there for them alone. What torch has no successor of stays (AMP512). All that a program has goes with its training loop;
where that stays on apex's amp, or there is none, each part goes by itself.

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
the steps of each parameter, which apex counts by group, where it is loaded. An optimizer that goes without its loop is
for a review where parameters may be in half precision (`.half()`, `O3`, a level that is known at run time alone):
torch's would compute in that, and keep its state in it, where apex's did both in float32. `set_grad_none` goes:
`zero_grad` of torch sets gradients to None, as apex's does on torch 2 whatever it was told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ampify.model.anchor import Anchor
from ampify.model.apex import ApexFile, ApexGroup, ApexLoad, ApexMention
from ampify.model.edit import Edit, Fix
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.apex_core import Core, core
from ampify.rules.apex_fates import Fates, Taken, fates
from ampify.rules.apex_imports import import_edits
from ampify.rules.apex_parts import steps_in_half, units
from ampify.rules.apex_states import reading_edits

CODE = "AMP511"
NAME = "apex-dependency"
TARGET = "native"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every mention of apex that torch has a successor of, and for every import that goes."""
    for group in project.apex:
        amp = core(project, settings, group)
        moves = list(_moves(project, group, amp))
        for move in moves:
            yield from (_mention(move, taken) for taken in move.fates.taken if taken.edits)
            yield from _imports(project, amp, move)
        yield from _loads(project, moves)


@dataclass(frozen=True, slots=True)
class _Move:
    """What goes together: uses of apex in a file, or in part of its imports. `steps_in_half` are the optimizers among
    them that may have parameters in half precision."""

    file: ApexFile
    fates: Fates
    group: str
    steps_in_half: frozenset[Anchor] = frozenset()

    def fix(self, edits: Iterable[Edit]) -> Fix:
        return Fix(tuple(edits), "unsafe" if self.steps_in_half else "safe", group=self.group)


def _moves(project: Project, group: ApexGroup, amp: Core) -> Iterator[_Move]:
    """All that goes with a group's loops; where these stay, or there are none, each part by itself."""
    alone = amp.kept is not None or not amp.loops
    for file in group.files:
        stays = amp.kept is not None
        decided, gone = ({}, ()) if stays else (amp.decided, amp.gone)
        found = fates(project.files[file.path], file, decided, gone, amp_stays=stays)
        if not alone:
            yield _Move(file, found, amp.group)
            continue
        for part, here in units(file, found):
            anchor = part.imports[0].anchor
            half = frozenset(t.mention.anchor for t in here.taken if steps_in_half(group, t.mention))
            yield _Move(part, here, f"{CODE}:{anchor.path}:{anchor.line}:{anchor.column}", half)


def _mention(move: _Move, taken: Taken) -> Finding:
    message = f"{taken.mention.dotted} is NVIDIA apex's; {taken.dotted} takes its place"
    if taken.mention.anchor in move.steps_in_half:
        message += (
            ". Parameters that may be in half precision here have torch's compute in it and keep its state in it; "
            "apex's did both in float32"
        )
    return Finding(CODE, NAME, taken.mention.anchor, message, fix=move.fix(taken.edits))


def _loads(project: Project, moves: Iterable[_Move]) -> Iterator[Finding]:
    for load in project.apex_loads:
        for move in moves:
            made = [taken.mention for taken in move.fates.taken if taken.mention.call in load.made]
            if made:
                yield _load(project, load, made, move)
                break


def _load(project: Project, load: ApexLoad, made: Iterable[ApexMention], move: _Move) -> Finding:
    edits = reading_edits(load, made, project.files[load.call.path].quote)
    if isinstance(edits, str):
        message = f"torch's optimizer does not read here what apex's saved: {edits}"
        return Finding(CODE, NAME, load.call, message, "put that into older checkpoints before they are loaded")
    message = "older checkpoints hold the state of an optimizer of NVIDIA apex; torch's reads it with steps"
    return Finding(CODE, NAME, load.call, message, fix=move.fix(edits))


def _imports(project: Project, amp: Core, move: _Move) -> Iterator[Finding]:
    file, going = move.file, move.fates.imports
    edits = import_edits(project.files[file.path], file, going, () if amp.kept else amp.gone)
    if edits:
        names = [n.dotted for s in file.imports for n in s.names if n.apex and n.bound in going]
        message = f"{', '.join(dict.fromkeys(names))} need no longer be imported from NVIDIA apex"
        anchor = next(s.anchor for s in file.imports if any(n.bound in going for n in s.names if n.apex))
        yield Finding(CODE, NAME, anchor, message, fix=move.fix(edits))
