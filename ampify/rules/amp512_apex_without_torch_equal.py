"""A script uses a part of NVIDIA apex that torch has no successor of.

What it does
------------
With `--target native`, names what comes nearest. The import stays, and all that the name is used for with it. So does
the import of `apex.amp` in each file of a program that cannot leave it (AMP513).

Why it matters
--------------
What computes something else, or keeps its state under other keys, is no replacement: the choice is the author's.

Before
------
    import torch
    from apex.optimizers import FusedLAMB

    model = torch.nn.Linear(4, 1)
    optimizer = FusedLAMB(model.parameters(), lr=1e-3)

Hint
----
Put what is named there in its place, use `--target runtime`, or keep apex installed for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.anchor import Anchor
from ampify.model.apex import ApexFile, ApexImport
from ampify.model.finding import Finding, Related
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.apex_core import core
from ampify.rules.apex_fates import Fates, Left, fates

CODE = "AMP512"
NAME = "apex-without-torch-equal"
TARGET = "native"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every name of apex that keeps its import."""
    for group in project.apex:
        amp = core(project, settings, group)
        for file in group.files:
            facts = project.files[file.path]
            if amp.kept is None:
                yield from map(_finding, fates(facts, file, amp.decided, amp.gone).left)
                continue
            found = fates(facts, file, {}, amp_stays=True)
            yield from map(_finding, found.left)
            # Where all stays on apex's amp, AMP513 says why, in one of the files.
            if amp.kept[0].path != file.path:
                yield from (_waiting(s.anchor, amp.kept[0]) for s in _untold(file, found))


def _untold(file: ApexFile, found: Fates) -> list[ApexImport]:
    """The imports of a file that stay for the sake of another file, and that nothing else is said of."""
    told = {left.name for left in found.left}
    return [
        statement
        for statement in file.imports
        if any(n.apex and n not in told and n.bound not in found.imports for n in statement.names)
    ]


def _finding(left: Left) -> Finding:
    message = f"{left.dotted} stays on NVIDIA apex: {left.reason}"
    return Finding(CODE, NAME, left.at, message, f"nearest: {left.nearest}", refuses=True)


def _waiting(imported: Anchor, kept: Anchor) -> Finding:
    message = "this import of NVIDIA apex stays, as does what runs together with this file"
    hint = "mend what AMP513 tells of there, or use --target runtime, where amp goes by the same names"
    return Finding(CODE, NAME, imported, message, hint, refuses=True, related=(Related(kept, "this keeps it"),))
