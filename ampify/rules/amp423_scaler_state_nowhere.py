"""Optimizers are stored in checkpoints, and the scaler of the same script never is.

What it does
------------
Points to what stores an optimizer's state in a file that makes a `GradScaler`, where no file given stores a scaler's.
It goes by names, and speaks where no training loop with a scaler can be followed; AMP420 speaks where one can.

Why it matters
--------------
A resumed run starts with the initial scale, and skips steps until it has fallen again.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")


    def step(trainer):
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4)).mean()
        trainer.run(scaler.scale(loss))


    torch.save({"optimizer": optimizer.state_dict()}, "last.pt")

Hint
----
Store `scaler.state_dict()` beside the optimizer's state, and load it where a checkpoint has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import last_name, nodes
from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import calls
from ampify.rules.reading import receiver

CODE = "AMP423"
NAME = "scaler-state-nowhere"
MESSAGE = (
    "the optimizer is stored here, and the scaler that is used beside it nowhere: a resumed run would lose the scale"
)
HINT = "store scaler.state_dict() beside the optimizer's state, and load it where a checkpoint has it"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every file with a scaler that stores an optimizer, if no file given stores a scaler."""
    followed = any(loop.native is not None for loop in project.loops)
    if followed or any(any(_stores(facts, "scaler")) for facts in project.files.values()):
        return
    scaling = {facts.path: facts for facts, _, _ in calls(project, ("torch",), frozenset({"GradScaler"}))}
    for facts in scaling.values():
        yield from (Finding(CODE, NAME, facts.anchor(call), MESSAGE, HINT) for call in _stores(facts, "optimizer"))


def _stores(facts: f.FileFacts, what: str) -> Iterator[f.Call]:
    """Calls that take the state of what has such a name, or give it to a function that saves."""
    for scope in facts.scopes:
        for node, _ in nodes(scope.body):
            if not isinstance(node, f.Call):
                continue
            name = last_name(node.func)
            taken = name == "state_dict" and what in receiver(node)
            if taken or ("save" in name.lower() and any(what in last_name(a).lower() for a in _given(node))):
                yield node


def _given(call: f.Call) -> Iterator[f.Expr]:
    yield from call.args
    yield from (value for _, value in call.keywords)
