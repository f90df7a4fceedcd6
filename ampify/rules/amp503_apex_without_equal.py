"""A script uses a part of NVIDIA apex that the runtime does not have.

What it does
------------
Names what comes nearest to it. The use stays as it is, while imports of other parts of apex move to the runtime
(AMP502). A part of `apex.amp` itself without an equal keeps all that runs together with it on apex: amp's state is one.
A float32 loop beside such a use is refused: it is not known to go together with the runtime's casts. An argument that
apex's optimizers took once, and take no more, is named too: the runtime's do not take it either.

Why it matters
--------------
`apex.contrib`, `apex.transformer` and the compiled modules beside them have to be built from apex's source.

Before
------
    import torch
    from apex.contrib.sparsity import ASP

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ASP.prune_trained_model(model, optimizer)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()

Hint
----
Put what is named there in its place, or keep apex installed for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.apex_catalog import nearest
from ampify.apex_successors import public_name, successor
from ampify.model.apex import ApexGroup, ApexUse
from ampify.model.finding import Finding, Related
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP503"
NAME = "apex-without-equal"
TARGET = "runtime"
_INSTEAD = (
    "take it away, and before each step call "
    "torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), max_grad_norm)"
)


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every use of what only apex has; a refusal of the loops that it keeps there."""
    for group in project.apex:
        left = group.blocked or tuple(use for use in group.uses if not use.equal)
        # What keeps masters of its own is what has no equal, and has the loop's state.
        own = any(use.dotted.endswith(".FP16_Optimizer") for use in left)
        gone = (loop for loop in project.loops if loop.migrated and not (loop.masters and own))
        migrated = frozenset() if group.blocked else {loop.id for loop in gone}
        held = [_held(left, loop) for loop in group.loops if left and loop not in migrated]
        yield from held
        for use in group.uses:
            if not use.equal and not (held and use is left[0]):
                yield _finding(use)
        yield from _waiting(group)
        for use in group.kept if not group.blocked else ():
            message = f"{use.dotted} stays on apex with the optimizer that is built around it"
            yield Finding(CODE, NAME, use.anchor, message, "take that away, or move both by hand", refuses=True)
        if not group.blocked:
            yield from _outdated(group)


def _outdated(group: ApexGroup) -> Iterator[Finding]:
    """The arguments of optimizers which only older versions of apex took; where these stay, they may be right."""
    staying = {use.anchor.path for use in group.kept}
    for mention in (m for file in group.files if file.path not in staying for m in file.mentions):
        known = successor(mention.dotted)
        if known is None or not public_name(mention.dotted).startswith("apex.optimizers."):
            continue
        for argument in mention.arguments or ():
            if argument.name not in (None, *known.parameters):
                message = f"{mention.dotted} took {argument.name} until 2019; the runtime's raises TypeError for it"
                hint = _INSTEAD if argument.name == "max_grad_norm" else "take the argument away"
                yield Finding(CODE, NAME, argument.anchor, message, hint, refuses=True)


def _waiting(group: ApexGroup) -> Iterator[Finding]:
    """The imports of files that have nothing of the kind themselves, and wait for those that do."""
    left = group.blocked
    told = {use.anchor.path for use in group.uses if not use.equal}
    for anchor in dict.fromkeys(use.anchor for use in group.uses if left and use.kind == "import"):
        if anchor.path not in told:
            message = "this import of NVIDIA apex stays, as does what runs together with this file"
            related = (Related(left[0].anchor, f"{left[0].dotted} keeps it there"),)
            yield Finding(
                CODE, NAME, anchor, message, f"nearest: {nearest(left[0].dotted)}", refuses=True, related=related
            )


def _finding(use: ApexUse) -> Finding:
    message = f"{use.dotted} has no equal in the runtime, so this stays as it is"
    return Finding(CODE, NAME, use.anchor, message, f"nearest: {nearest(use.dotted)}", refuses=True)


def _held(left: tuple[ApexUse, ...], loop: str) -> Finding:
    use = left[0]
    message = f"this keeps a training loop on apex: {use.dotted} has no equal in the runtime"
    related = tuple(Related(other.anchor, "has none either") for other in left[1:])
    hint = f"nearest: {nearest(use.dotted)}; the loop can move once it is gone"
    return Finding(CODE, NAME, use.anchor, message, hint, refuses=True, loop=loop, related=related)
