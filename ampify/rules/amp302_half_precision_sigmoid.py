"""The probabilities that a binary cross entropy is given come from code that runs in half precision.

What it does
------------
Reports each loop whose loss takes probabilities, and the sigmoids that models in the file of that loss end in. The loss
itself is computed in float32 (AMP301); the sigmoid before it is the model's own and is left as it is.

Why it matters
--------------
In float16 a sigmoid rounds to 1 for logits from about 8 on. The gradient of the loss there, about 1 / (1 - p), then
overflows on its way back through the sigmoid, and steps are skipped: measured with logits of 10 against a target of 0,
every step was.

Before
------
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid())
    criterion = torch.nn.BCELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = criterion(model(torch.ones(2, 4)), torch.ones(2, 1))
        loss.backward()
        optimizer.step()

Hint
----
Return logits and use `binary_cross_entropy_with_logits`, or call the sigmoid through `amp.float_function`, as in
`amp.float_function(torch.sigmoid)(logits)`. Opt level O4 (bfloat16) does not overflow, but rounds sooner.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import dotted_name, last_name, statements
from ampify.model import facts as f
from ampify.model.anchor import Anchor
from ampify.model.finding import Finding, Related
from ampify.model.project import Project, TrainingLoop
from ampify.model.settings import Settings

CODE = "AMP302"
NAME = "half-precision-sigmoid"
MESSAGE = (
    "this loss takes probabilities: a sigmoid in half precision rounds to 0 or 1 for logits beyond 8, and the gradient "
    "overflows there"
)
ENDING = (
    "a loss of this file takes probabilities: where they are of this sigmoid, it rounds to 0 or 1 in half precision"
)
LOGITS = "use binary_cross_entropy_with_logits, or compute the sigmoid "
HINTS = {
    "runtime": f"{LOGITS}by amp.float_function(torch.sigmoid)(logits)",
    "native": f"{LOGITS}of logits.float() under torch.autocast(..., enabled=False)",
}


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """One finding a loop, at the first such loss, and one for each sigmoid that a model of its files ends in; it
    forbids nothing."""
    told: set[Anchor] = set()
    hint = HINTS[settings.target]
    for loop in project.loops:
        if loop.cross_entropies:
            first, *others = loop.cross_entropies
            related = tuple(Related(other.call, "as here") for other in others)
            yield Finding(CODE, NAME, first.call, MESSAGE, hint, loop=loop.id, related=related)
            here = (Related(first.call, "the loss that takes probabilities"),)
            for sigmoid in _ends(project, loop):
                if sigmoid not in told:
                    told.add(sigmoid)
                    yield Finding(CODE, NAME, sigmoid, ENDING, hint, loop=loop.id, related=here)


def _ends(project: Project, loop: TrainingLoop) -> Iterator[Anchor]:
    """The sigmoids that functions return, or what they return ends in, in the files whose losses take probabilities."""
    for path in sorted({loss.call.path for loss in loop.cross_entropies}):
        facts = project.files[path]
        returned = frozenset(name for scope in facts.scopes for name in _returned(scope.body))
        for scope in facts.scopes:
            for statement in statements(scope.body):
                yield from (facts.anchor(call) for call in _last_sigmoids(statement, returned))


def _last_sigmoids(statement: f.Stmt, returned: frozenset[str]) -> Iterator[f.Call]:
    """The sigmoid that a statement returns, or that a `Sequential` ends in whose result is returned, or that a model
    by itself ends in."""
    value = statement.value if isinstance(statement, f.Return | f.Assign) else None
    if not isinstance(value, f.Call):
        return
    if isinstance(statement, f.Return) and last_name(value.func).lower() == "sigmoid":
        yield value
    elif isinstance(statement, f.Assign) and last_name(value.func) == "Sequential":
        names = [dotted_name(target) for target in statement.targets]
        last = value.args[-1] if value.args else None
        used = any(name in returned or (name and "." not in name) for name in names)
        if used and isinstance(last, f.Call) and last_name(last.func) == "Sigmoid":
            yield last


def _returned(body: tuple[f.Stmt, ...]) -> Iterator[str]:
    """What a function calls last for what it returns: by its dotted name, looked up through one variable."""
    called: dict[str, str] = {}
    for statement in statements(body):
        if isinstance(statement, f.Assign):
            called.update((dotted_name(target), _called(statement.value)) for target in statement.targets)
        elif isinstance(statement, f.Return) and statement.value is not None:
            found = _called(statement.value)
            yield called.get(found.partition(".")[0], found)


def _called(expr: f.Expr) -> str:
    """What gives the value that a chain of methods starts from: the dotted name of what is called, or of a variable."""
    while isinstance(expr, f.Call | f.Attribute | f.Subscript):
        inner = expr.func if isinstance(expr, f.Call) else expr.value
        if not isinstance(inner, f.Attribute | f.Call | f.Subscript) or dotted_name(inner):
            return dotted_name(inner)
        expr = inner
    return dotted_name(expr)
