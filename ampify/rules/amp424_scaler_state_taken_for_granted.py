"""The scaler's state is loaded from every checkpoint, by a function that is handed the scaler.

What it does
------------
Points to `scaler.load_state_dict(checkpoint[...])` that no condition and no `try` guards. It goes by names, and speaks
in files without a training loop that could be followed; in others AMP422 speaks, and mends.

Why it matters
--------------
Checkpoints from before the scaler do not have the key: resuming from one stops with a KeyError.

Before
------
    import torch


    def resume(path, optimizer, scaler):
        checkpoint = torch.load(path)
        optimizer.load_state_dict(checkpoint["optimizer"])
        scaler.load_state_dict(checkpoint["scaler"])


    def train(loss, optimizer, scaler):
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Hint
----
Load it under `if "scaler" in checkpoint:`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import path_to
from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.reading import method_calls, receiver

CODE = "AMP424"
NAME = "scaler-state-taken-for-granted"
MESSAGE = "checkpoints from before the scaler do not have this key: loading one raises KeyError"
HINT = "load it only if the key is in the checkpoint"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every such load that no followed training loop accounts for."""
    followed = {loop.anchor.path for loop in project.loops if loop.native is not None}
    for facts in (facts for path, facts in project.files.items() if path not in followed):
        for scope in facts.scopes if "load_state_dict" in facts.methods else ():
            for call in method_calls(scope.body, "load_state_dict"):
                if "scaler" in receiver(call) and _demands(facts, scope, call):
                    yield Finding(CODE, NAME, facts.anchor(call), MESSAGE, HINT)


def _demands(facts: f.FileFacts, scope: f.Scope, call: f.Call) -> bool:
    """Whether a key of a checkpoint is loaded that nothing around it asks for."""
    state = call.args[0] if call.args else None
    if not isinstance(state, f.Subscript) or not isinstance(state.index, f.Constant):
        return False
    key = str(state.index.value)
    around = [block[index] for block, index in path_to(scope.body, call.span)]
    asked = any(isinstance(s, f.Branch) and key in facts.text(s.test.span) for s in around)
    return not asked and not any(isinstance(s, f.Try) for s in around)
