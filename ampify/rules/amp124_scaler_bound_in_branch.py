"""A scaler is bound under a condition, and its name used where that need not hold.

What it does
------------
Points to the first use of a name that is bound to a `GradScaler` under an `if` alone, outside of that `if`.

Why it matters
--------------
Where the condition does not hold, which is where mixed precision is off, the script stops with a NameError.

Before
------
    import sys

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if "--amp" in sys.argv:
        scaler = torch.amp.GradScaler("cuda")
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(torch.ones(2, 4)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Hint
----
Make the scaler in any case, with `enabled=` what the condition says: one that is not enabled leaves losses as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import blocks, in_order, inside, nodes, path_to, statements
from ampify.model import facts as f
from ampify.model.finding import Finding, Related
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.framework import calls

CODE = "AMP124"
NAME = "scaler-bound-in-branch"
MESSAGE = "this name is bound only where a condition holds, and used here all the same: a NameError where it does not"
HINT = "make the scaler in any case, with enabled= what the condition says"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for the first use of a name that may not be bound to its scaler yet."""
    for facts, call, _ in calls(project, ("torch",), frozenset({"GradScaler"})):
        for scope in facts.scopes:
            for statement in statements(scope.body):
                if isinstance(statement, f.Assign) and statement.value is call:
                    yield from _findings(facts, scope, statement)


def _findings(facts: f.FileFacts, scope: f.Scope, bound: f.Assign) -> Iterator[Finding]:
    (target, *others) = bound.targets
    if others or not isinstance(target, f.Name) or target.id in scope.outer | {p.name for p in scope.parameters}:
        return
    around = _conditions(scope.body, bound.span)
    for node, parents in nodes(scope.body) if around else ():
        if not isinstance(node, f.Name) or node.id != target.id or node.span <= bound.span:
            continue
        if any(p.kind in ("IfExp", "BoolOp") for p in parents) or set(_conditions(scope.body, node.span)) - set(around):
            continue
        if around[-1] not in _conditions(scope.body, node.span) and not _bound_before(scope.body, node):
            related = (Related(facts.anchor(bound), "bound here, under a condition"),)
            yield Finding(CODE, NAME, facts.anchor(node), MESSAGE, HINT, related=related)
            return


def _conditions(body: tuple[f.Stmt, ...], span: f.Span) -> list[f.Span]:
    """The conditions that a place is under, outermost first."""
    around = (block[index] for block, index in path_to(body, span))
    return [s.span for s in around if isinstance(s, f.Branch) and not inside(span, s.test.span)]


def _bound_before(body: tuple[f.Stmt, ...], name: f.Name) -> bool:
    """Whether some statement on the way to a use surely binds its name."""
    return any(_binds(s, name.id) for block, index in path_to(body, name.span) for s in block[:index])


def _binds(statement: f.Stmt, name: str) -> bool:
    """Whether a statement, if it ends, has bound a name."""
    match statement:
        case f.Assign():
            parts = (node for target in statement.targets for node, _ in in_order(target))
            return any(isinstance(node, f.Name) and node.id == name for node in parts)
        case f.Branch():
            return statement.exhaustive and all(_block_binds(arm, name) for arm in statement.arms)
        case f.With():
            return _block_binds(statement.body, name)
        case f.Return() | f.Jump():
            return True
        case f.Evaluate() | f.Simple():
            return False
    # Of what a loop, an attempt, an import or a definition binds, too little is known to speak of it.
    return any(isinstance(s, f.Assign) and _binds(s, name) for block in blocks(statement) for s in statements(block))


def _block_binds(block: tuple[f.Stmt, ...], name: str) -> bool:
    return any(_binds(statement, name) for statement in block)
