"""A model is wrapped for parallel training before its optimizer is built, and so before `amp.initialize`.

What it does
------------
At the opt levels `O2`, `O3` and `O5` it refuses a loop whose model goes into `DataParallel` or
`DistributedDataParallel` before the optimizer exists: `amp.initialize` follows the optimizer, so it would find the
wrapper. At `O0`, `O1` and `O4`, which cast no parameter, the loop is migrated, and the finding says how far that holds.

Where `amp.initialize` is there already, its own level counts. The wrap moves behind the call if both stand in one block
and nothing in between needs the wrapper, which is for a review. Of a level that is no literal it only reports.

Why it matters
--------------
These levels turn the model's parameters into half precision. A wrapper has taken hold of the float32 parameters by then
and would reduce the gradients of those.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    model = torch.nn.DataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()

Hint
----
Build the optimizer from the bare model and move the wrap below it, or choose `--opt-level O1` (`O4` for bfloat16).
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.anchor import Anchor
from ampify.model.edit import Delete, Fix, InsertAfter
from ampify.model.finding import Finding, Related
from ampify.model.project import EarlyWrap, Initialize, Project, TrainingLoop
from ampify.model.settings import Settings

CODE = "AMP103"
NAME = "wrap-before-initialize"
TARGET = "runtime"
HINT = "build the optimizer from the bare model and move this wrap below it, or choose --opt-level O1 (O4 for bfloat16)"
# The levels at which parameters themselves change their type.
CASTING_PARAMETERS = frozenset({"O2", "O3", "O5"})
_KEEPING = frozenset({"O0", "O1", "O4"})


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A refusal for every wrap that comes too early at its opt level."""
    for loop in project.loops:
        for place in loop.initializes:
            yield from (_present(loop, place, wrap) for wrap in place.early_wraps if place.level not in _KEEPING)
    for loop in project.loops:
        if settings.opt_level in CASTING_PARAMETERS:
            yield from (_finding(loop, wrap, settings.opt_level) for wrap in loop.late_wraps)
        elif not loop.migrated:
            for wrap in loop.late_wraps:
                yield from _advice(loop, wrap, settings.opt_level)


def _present(loop: TrainingLoop, place: Initialize, wrap: EarlyWrap) -> Finding:
    related = (Related(place.anchor, "amp.initialize is here"),)
    level = place.level or "a level such as O2"
    message = f"the model is wrapped here, before amp.initialize casts it, and {level} casts the model's parameters"
    if wrap.statement is None or place.level is None:
        hint = "move this wrap below amp.initialize"
        return Finding(CODE, NAME, wrap.call, message, hint, None, place.level is not None, loop.id, related)
    group = f"{wrap.call.path}:{wrap.call.line}:{CODE}"
    fix = Fix((Delete(wrap.statement), InsertAfter(place.anchor, wrap.text)), "unsafe", group)
    return Finding(CODE, NAME, wrap.call, message, fix=fix, loop=loop.id, related=related)


def _finding(loop: TrainingLoop, wrap: Anchor, opt_level: str) -> Finding:
    message = (
        f"the model is wrapped here, before amp.initialize can cast it, and {opt_level} casts the model's parameters"
    )
    places = tuple(Related(place.anchor, "amp.initialize would go here") for place in loop.initializes)
    return Finding(CODE, NAME, wrap, message, HINT, refuses=True, loop=loop.id, related=places)


def _advice(loop: TrainingLoop, wrap: Anchor, opt_level: str) -> Iterator[Finding]:
    """What a wrap allows, if `amp.initialize` is to be put behind it."""
    places = [p.anchor for p in loop.initializes if not p.present and (p.anchor.path != wrap.path or p.anchor > wrap)]
    message = (
        f"the model is wrapped here, before amp.initialize: right at {opt_level}, which casts no parameter, and not at "
        "O2, O3 or O5"
    )
    related = tuple(Related(place, "amp.initialize goes here") for place in places)
    hint = "for these levels, build the optimizer from the bare model and move this wrap below it"
    if places:
        yield Finding(CODE, NAME, wrap, message, hint, loop=loop.id, related=related)
