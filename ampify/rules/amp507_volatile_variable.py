"""A Variable is made volatile, which has no effect any more.

What it does
------------
Points to `Variable(..., volatile=True)`. It changes nothing: what the block is that should run without gradients, the
author knows.

Why it matters
--------------
Until torch 0.4 it kept the graph of an evaluation from being built. Now it warns, and the graph is built: memory grows
with every batch whose loss is added up.

Before
------
    import torch
    from torch.autograd import Variable

    model = torch.nn.Linear(4, 1)
    total = 0.0
    for batch in torch.ones(3, 2, 4):
        total += model(Variable(batch, volatile=True)).mean()

Hint
----
Put the evaluation under `with torch.no_grad():` and take `volatile` away.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import is_false, last_name, nodes
from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP507"
NAME = "volatile-variable"
MESSAGE = "volatile has no effect since torch 0.4: the graph is built here all the same"
HINT = "put the evaluation under `with torch.no_grad():` and take volatile away"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every Variable that is made volatile."""
    for facts in project.files.values():
        if "Variable" in facts.names and any("volatile" in line for line in facts.lines):
            yield from (Finding(CODE, NAME, facts.anchor(node), MESSAGE, HINT) for node in _volatile(facts))


def _volatile(facts: f.FileFacts) -> Iterator[f.Call]:
    for scope in facts.scopes:
        for node, _ in nodes(scope.body):
            keywords = node.keywords if isinstance(node, f.Call) and last_name(node.func) == "Variable" else ()
            if isinstance(node, f.Call) and any(n == "volatile" and not is_false(value) for n, value in keywords):
                yield node
