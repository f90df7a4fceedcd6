"""Parameters are bounded in place, while an opt level may keep masters of them.

What it does
------------
Points to `clamp_` on what a loop over `model.parameters()` goes through, as WGAN does it, where a loop of the file is
migrated. It refuses nothing.

Why it matters
--------------
At `O0`, `O1` and `O4` these are the parameters that the optimizer steps, and nothing changes. At `O2` and `O5` the
optimizer steps float32 masters, and each step copies these over what was written: the bound is without effect.

Before
------
    import torch

    critic = torch.nn.Linear(4, 1)
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    for step in range(3):
        for parameter in critic.parameters():
            parameter.data.clamp_(-0.01, 0.01)
        optimizer.zero_grad()
        loss = critic(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()

Hint
----
Stay at O1 (O4 for bfloat16), or bound `amp.master_params(optimizer)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import dotted_name, last_name, statements
from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.reading import method_calls

CODE = "AMP309"
NAME = "parameters-written-in-place"
TARGET = "runtime"
MESSAGE = "parameters are bounded in place here: right at O0, O1 and O4, and undone by the next step at O2 and O5"
HINT = "stay at O1 (O4 for bfloat16), or bound amp.master_params(optimizer)"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every such bound in a file with a loop to migrate."""
    paths = {call.path for loop in project.loops if loop.native is None for call in loop.backwards}
    for path in sorted(paths):
        facts = project.files[path]
        for scope in facts.scopes if "clamp_" in facts.methods else ():
            for statement in statements(scope.body):
                if isinstance(statement, f.For) and last_name(statement.iterable) == "parameters":
                    yield from _findings(facts, statement)


def _findings(facts: f.FileFacts, loop: f.For) -> Iterator[Finding]:
    name = dotted_name(loop.target)
    for call in method_calls(loop.body, "clamp_"):
        written = dotted_name(call.func.value) if isinstance(call.func, f.Attribute) else ""
        if name and written in (name, f"{name}.data"):
            yield Finding(CODE, NAME, facts.anchor(call), MESSAGE, HINT)
