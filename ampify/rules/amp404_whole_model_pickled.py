"""A model is saved as an object, not by its state.

What it does
------------
Points to `torch.save(model, ...)`. It refuses nothing, and what is saved is read as before.

Why it matters
--------------
What is loaded from the file is another object than the one that was prepared for mixed precision: it runs in float32,
and no optimizer or scaler knows of it, so that training must not go on with it as it is. Since 2.6, `torch.load`
refuses such files unless it is called with `weights_only=False`, or their classes are allowed one by one; and they
cannot be read where a class has moved.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()
    torch.save(model, "model.pt")

Hint
----
Save `model.state_dict()`, and load it into a model that is made anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import calls, dotted_name
from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP404"
NAME = "whole-model-pickled"
MESSAGE = (
    "the model is saved here as an object: what is loaded from it is another one, in float32, that nothing has "
    "prepared for mixed precision, and torch.load refuses it by default since 2.6"
)
HINT = "save its state_dict(), and load that into a model that is made anew"
# What only a module is called for.
_OF_MODULES = frozenset({"parameters", "named_parameters", "eval", "train", "zero_grad", "named_modules", "children"})


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every model that is saved as a whole."""
    for facts in project.files.values():
        if "save" in facts.methods:
            yield from _findings(facts)


def _findings(facts: f.FileFacts) -> Iterator[Finding]:
    found = [call for scope in facts.scopes for call in calls(scope.body)]
    modules = {
        dotted_name(call.func.value)
        for call in found
        if isinstance(call.func, f.Attribute) and call.func.attr in _OF_MODULES
    }
    for call in found:
        if dotted_name(call.func) == "torch.save" and call.args and dotted_name(call.args[0]) in modules - {""}:
            yield Finding(CODE, NAME, facts.anchor(call), MESSAGE, HINT)
