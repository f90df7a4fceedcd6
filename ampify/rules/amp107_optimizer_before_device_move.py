"""An optimizer is built from a model that moves to its device only afterwards.

What it does
------------
Points to an optimizer whose model is moved by `to(device)` or `cuda()` further down in the same block, and was not
moved before. It refuses nothing: `amp.initialize`, or the scaler, goes below the move.

Why it matters
--------------
The optimizer keeps the parameters that the model had when it was built, and torch asks to move the model first. Where a
move makes new parameters, as on XLA devices, the optimizer steps the old ones, and nothing is trained; fused optimizers
and state that was loaded before the move stay on the old device.

Before
------
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(device)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4, device=device)).mean()
        loss.backward()
        optimizer.step()

Hint
----
Move the model to its device before the optimizer is built.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import dotted_name, in_order, last_name, nodes, statements
from ampify.model import facts as f
from ampify.model.finding import Finding, Related
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.reading import all_blocks, is_optimizer_class

CODE = "AMP107"
NAME = "optimizer-before-device-move"
MESSAGE = "this optimizer is built from {model}, which moves to its device only afterwards"
HINT = "move the model to its device before the optimizer is built"
# What an argument of `to` is told to be a device by.
_DEVICES = ("device", "cuda", "gpu", "rank", "xla", "mps")


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every optimizer that is built too early."""
    for facts in project.files.values():
        for scope in facts.scopes if "parameters" in facts.methods and facts.methods & {"to", "cuda"} else ():
            for block in all_blocks(scope.body):
                yield from _early(facts, scope.body, block)


def _early(facts: f.FileFacts, body: tuple[f.Stmt, ...], block: tuple[f.Stmt, ...]) -> Iterator[Finding]:
    """The optimizers of a block whose models are first moved by what follows in it."""
    for index, statement in enumerate(block):
        call = statement.value if isinstance(statement, f.Assign) else None
        if not isinstance(call, f.Call) or not is_optimizer_class(last_name(call.func)):
            continue
        for model in dict.fromkeys(_models(call)):
            later = next((at for name, at in _moves(facts, block[index + 1 :]) if name == model), None)
            if later is not None and _unmoved(facts, body, model, call):
                related = (Related(facts.anchor(later), "it is moved here"),)
                yield Finding(CODE, NAME, facts.anchor(call), MESSAGE.format(model=model), HINT, related=related)


def _models(optimizer: f.Call) -> Iterator[str]:
    """What an optimizer is given the parameters of."""
    for node, _ in in_order(optimizer):
        if isinstance(node, f.Call) and isinstance(node.func, f.Attribute) and node.func.attr == "parameters":
            yield dotted_name(node.func.value)


def _unmoved(facts: f.FileFacts, body: tuple[f.Stmt, ...], model: str, optimizer: f.Call) -> bool:
    """Whether the function of an optimizer has made its model, of a class and on no device, and not moved it yet."""
    if any(name == model and at.span < optimizer.span for name, at in _moves(facts, body)):
        return False
    before = [s for s in statements(body) if isinstance(s, f.Assign) and s.span < optimizer.span]
    made = [s.value for s in before if any(dotted_name(target) == model for target in s.targets)]
    return bool(made) and all(
        isinstance(value, f.Call) and last_name(value.func)[:1].isupper() and not any(_moves(facts, (), value))
        for value in made
    )


def _moves(facts: f.FileFacts, body: tuple[f.Stmt, ...], value: f.Expr | None = None) -> Iterator[tuple[str, f.Call]]:
    """Calls that move something to a device, in statements or in an expression, each with what has a name there."""
    for node, _ in nodes(body) if value is None else in_order(value):
        if isinstance(node, f.Call) and isinstance(node.func, f.Attribute) and node.func.attr in ("to", "cuda"):
            arguments = (*node.args, *(argument for _, argument in node.keywords))
            given = "".join(facts.text(argument.span).lower() for argument in arguments)
            if node.func.attr == "cuda" or any(word in given for word in _DEVICES):
                yield dotted_name(node.func.value), node
