"""The analysis of a training loop stopped before its end.

What it does
------------
Refuses a loop that ampify has not followed to its end, since so many ways of calling its functions come together that
following them all would take minutes.

Why it matters
--------------
What was not followed could be another optimizer or another use of the gradients.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


    def train():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        optimizer.step()


    def level_1():
        train()
        train()
        train()
        train()


    def level_2():
        level_1()
        level_1()
        level_1()
        level_1()


    def level_3():
        level_2()
        level_2()
        level_2()
        level_2()


    def level_4():
        level_3()
        level_3()
        level_3()
        level_3()


    def level_5():
        level_4()
        level_4()
        level_4()
        level_4()


    def level_6():
        level_5()
        level_5()
        level_5()
        level_5()


    def level_7():
        level_6()
        level_6()
        level_6()
        level_6()


    def level_8():
        level_7()
        level_7()
        level_7()
        level_7()


    level_8()

Hint
----
Run ampify on the script and the modules it trains with, not on the whole repository.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP214"
NAME = "analysis-budget"
MESSAGE = (
    "the analysis stopped at its budget before it had followed this training loop to its end, so none of it is migrated"
)
HINT = "run ampify on this script and the modules it needs alone"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop that was not followed to its end."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
