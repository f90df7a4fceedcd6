"""`--add-flag` was asked for, but the script's parsed arguments are not in scope where the model is initialized.

What it does
------------
Reports an `amp.initialize` for which no `args = parser.parse_args()` can be named; the opt level is written as a
constant there.

Why it matters
--------------
Without an option the level can only be changed in the code, or by `AMPIFY_OPT_LEVEL` in the environment.

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

Hint
----
Pass the parsed arguments to the function that builds the optimizer, or set `AMPIFY_OPT_LEVEL` when running.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings

CODE = "AMP104"
NAME = "no-arguments-in-scope"
TARGET = "runtime"
MESSAGE = "no parsed command-line arguments are in scope here, so the script gets no --opt-level option"
HINT = "pass them to this function, or set AMPIFY_OPT_LEVEL in the environment of a run"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every place to initialize that cannot read an option."""
    if not settings.add_flag:
        return
    for loop in project.loops:
        for place in loop.initializes:
            if not place.present and place.flag is None:
                yield Finding(CODE, NAME, place.anchor, MESSAGE, HINT, loop=loop.id)
