"""A tensor is filled with a number that float16 does not have.

What it does
------------
In a project with a loop to migrate, points to `masked_fill` and `masked_fill_` with a number beyond 65504, such as
-1e9. It refuses nothing: whether the tensor is in float16 there, only a run tells.

Why it matters
--------------
What an attention masks is the product of a matrix multiplication, which autocast computes in float16, and torch refuses
to fill it with what would overflow: RuntimeError, value cannot be converted to type c10::Half without overflow. In
bfloat16, which ends where float32 does, nothing happens.

Before
------
    import torch


    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.project = torch.nn.Linear(4, 4)

        def forward(self, x, mask):
            scores = self.project(x) @ x.transpose(-2, -1)
            scores = scores.masked_fill(mask == 0, -1e9)
            return torch.softmax(scores, dim=-1)


    model = Attention()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(2, 3, 4), torch.ones(3, 3)).pow(2).mean()
        loss.backward()
        optimizer.step()

Hint
----
Fill with `torch.finfo(scores.dtype).min`, with `float("-inf")` where no row is masked as a whole, or fill
`scores.float()`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.index.syntax import calls
from ampify.model import facts as f
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP308"
NAME = "fill-beyond-half"
MESSAGE = "float16 ends at 65504: where autocast computed this tensor in it, torch refuses to fill it with this number"
HINT = 'fill with torch.finfo(tensor.dtype).min or float("-inf"), or call float() on the tensor first'
FILLS = frozenset({"masked_fill", "masked_fill_"})
LARGEST_HALF = 65504.0


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every such number, if something here is to be trained in float16."""
    half = settings.dtype == "float16" and settings.opt_level not in ("O0", "O4", "O5")
    if not half or all(loop.native is not None or loop.migrated for loop in project.loops):
        return
    for facts in project.files.values():
        for scope in facts.scopes if facts.methods & FILLS else ():
            for call in calls(scope.body):
                if any(_number(argument) > LARGEST_HALF for argument in _filled_with(call)):
                    yield Finding(CODE, NAME, facts.anchor(call), MESSAGE, HINT)


def _filled_with(call: f.Call) -> tuple[f.Expr, ...]:
    """What a call fills a tensor with; nothing if it is another call."""
    if not isinstance(call.func, f.Attribute) or call.func.attr not in FILLS:
        return ()
    return (*call.args[1:], *(argument for name, argument in call.keywords if name == "value"))


def _number(expr: f.Expr) -> float:
    """The size of a number that is written out; 0 for anything else, infinity among it."""
    if isinstance(expr, f.Operation) and expr.operator in ("USub", "UAdd"):
        return _number(expr.operands[0])
    value = expr.value if isinstance(expr, f.Constant) else 0
    return float(value) if isinstance(value, int | float) and value != float("inf") else 0.0
