"""A script imports NVIDIA apex, whose `amp` is gone from its releases.

What it does
------------
Changes the root of every import of apex to the runtime's, which has the same names: `from apex import amp`, aliases,
`import apex` with all that is reached through it, imports in functions and under conditions, module names in
`importlib.import_module`, and the messages that ask to install apex. Everything else stays as it is: a loop with
`amp.initialize` and `amp.scale_loss` is a migrated loop, and is held to the same rules. Where a backward is not scaled
and only the author can say how, the imports wait: the runtime would refuse the step that apex lets pass.

Why it matters
--------------
apex must be built for the CUDA of each machine, and its current version has no `amp` at all.

Before
------
    import torch
    from apex import amp

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()

After
-----
    import torch
    from ampify_runtime import amp

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()

Fix safety
----------
Safe: only names move that the runtime has too, and all files that run together move together, as amp's state is one.
If one of them needs a part of apex's amp that has no equal (AMP503), all stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.anchor import Anchor
from ampify.model.apex import ApexGroup, ApexUse
from ampify.model.edit import Edit, Fix, Replace
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.apex_names import with_install_message

CODE = "AMP502"
NAME = "apex-import"
TARGET = "runtime"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every import of apex, or message about installing it, that can move to the runtime."""
    for group in project.apex:
        unscaled = _unscaled(project, group) if group.movable else None
        if unscaled is not None:
            # All of its loops stay, those that are right on apex too; that of the backward is refused for itself.
            at_fault, backward = unscaled
            for name in dict.fromkeys((group.id, *group.loops)):
                if name != at_fault:
                    yield _waiting(group, backward, name)
        for use in group.movable:
            if use.kind != "name":
                yield _finding(project, settings, group, use)
        if not settings.wants(CODE):
            # The loops must not move without what they import.
            yield from (_held(group, loop) for loop in group.loops)


def _finding(project: Project, settings: Settings, group: ApexGroup, use: ApexUse) -> Finding:
    edits = tuple(_edits(project, settings, group, use))
    if use.kind == "message":
        message = "this message asks to install apex, and the imports are the runtime's now"
    else:
        message = f"{use.dotted} is imported from NVIDIA apex; {settings.runtime_module} has the same names"
    return Finding(CODE, NAME, use.anchor, message, fix=Fix(edits, group=group.id))


def _edits(project: Project, settings: Settings, group: ApexGroup, use: ApexUse) -> Iterator[Edit]:
    """The edits of one import; what is reached through the package as a whole goes along with its imports."""
    assert use.token is not None
    text = project.files[use.anchor.path].text((*use.token.start, *use.token.end))
    if use.kind == "message":
        yield Replace(use.token, with_install_message(text))
        return
    if use.kind == "text":
        yield Replace(use.token, text.replace("apex", settings.runtime_module, 1))
        return
    yield Replace(use.token, settings.runtime_module)
    if use.bound == "apex":
        for other in group.movable:
            if other.kind == "name" and other.token is not None and other.anchor.path == use.anchor.path:
                yield Replace(other.token, settings.runtime_module)


def _unscaled(project: Project, group: ApexGroup) -> tuple[str, Anchor] | None:
    """A loop and its backward that apex lets pass unscaled, that only its author can mend, and after which the runtime
    refuses the step."""
    refused = {obstacle.loop for obstacle in project.obstacles}
    for loop in project.loops:
        if loop.id in group.loops and loop.switched:
            for backward in loop.backward_calls:
                mended = backward.guard is not None and loop.id not in refused
                if not backward.scaled and not backward.off and not mended:
                    return loop.id, backward.call
    return None


def _waiting(group: ApexGroup, backward: Anchor, loop: str) -> Finding:
    message = (
        f"this stays on apex for now: {backward.path}:{backward.line} is not scaled, and the runtime refuses such steps"
    )
    hint = "scale that backward where amp is on, and run ampify again"
    return Finding(CODE, NAME, group.uses[0].anchor, message, hint, refuses=True, loop=loop)


def _held(group: ApexGroup, loop: str) -> Finding:
    message = "this loop imports apex, which is not to be changed"
    hint = f"select {CODE} as well"
    return Finding(CODE, NAME, group.uses[0].anchor, message, hint, refuses=True, loop=loop)
