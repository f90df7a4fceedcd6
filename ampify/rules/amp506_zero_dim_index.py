"""A loss is indexed as if it were a vector of one number.

What it does
------------
Spells `loss.data[0]` as `loss.item()` where the same function calls `loss.backward()`, which shows that the loss is one
number. Elsewhere it only reports, and only of what is called a loss.

Why it matters
--------------
A loss has no dimension since torch 0.4, and indexing it raises IndexError.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    for step in range(3):
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        print(loss.data[0])
        model.zero_grad()

After
-----
    import torch

    model = torch.nn.Linear(4, 1)
    for step in range(3):
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        print(loss.item())
        model.zero_grad()

Fix safety
----------
Safe: a backward without a gradient takes one number only, and `item()` is that number.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import expressions, in_order, last_name, statements
from ampify.model import facts as f
from ampify.model.edit import Fix, Replace
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP506"
NAME = "zero-dim-index"
MESSAGE = "a loss has no dimension to index since torch 0.4: this raises IndexError"
HINT = "write .item(), if this is one number"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every loss that is indexed by 0."""
    for facts in project.files.values():
        if any(".data[0]" in line for line in facts.lines):
            for scope in facts.scopes:
                yield from _findings(facts, scope)


def _findings(facts: f.FileFacts, scope: f.Scope) -> Iterator[Finding]:
    nodes = [n for s in statements(scope.body) for e in expressions(s) for n, _ in in_order(e)]
    numbers = {facts.text(loss.span) for node in nodes if (loss := _of_plain_backward(node)) is not None}
    for node in nodes:
        indexed = _indexed(node)
        if indexed is None:
            continue
        anchor, text = facts.anchor(node), facts.text(indexed.span)
        if text in numbers:
            group = f"{facts.path}:{anchor.line}:{anchor.column}:{CODE}"
            yield Finding(CODE, NAME, anchor, MESSAGE, fix=Fix((Replace(anchor, f"{text}.item()"),), group=group))
        elif "loss" in last_name(indexed).lower():
            yield Finding(CODE, NAME, anchor, MESSAGE, HINT)


def _of_plain_backward(node: f.Expr) -> f.Expr | None:
    """The `x` of `x.backward()` without a gradient."""
    if not isinstance(node, f.Call) or not isinstance(node.func, f.Attribute) or node.func.attr != "backward":
        return None
    given = node.args or any(name == "gradient" for name, _ in node.keywords)
    return None if given else node.func.value


def _indexed(node: f.Expr) -> f.Expr | None:
    """The `x` of `x.data[0]`."""
    if not isinstance(node, f.Subscript) or not isinstance(node.value, f.Attribute) or node.value.attr != "data":
        return None
    zero = isinstance(node.index, f.Constant) and node.index.value == 0 and node.index.value is not False
    return node.value.value if zero else None
