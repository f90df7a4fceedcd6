"""A function trains, and there is no exact way to hand it the scaler.

What it does
------------
With `--target native` it refuses a loop of which a part runs in a function that cannot see the scaler and cannot be
given it: it is decorated, handed on as a value, or called by what is not known.

Why it matters
--------------
A call that lacks the new argument would stop the script; one that is not seen cannot be changed.

Before
------
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


    def train(model, optimizer):
        for step in range(3):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4, device=device)).mean()
            loss.backward()
            optimizer.step()


    def main(function):
        model = torch.nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        function(model, optimizer)


    main(train)

Hint
----
Call the function by its name where the optimizer is built, or keep the optimizer in a field of an object, beside which
the scaler can be kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP122"
NAME = "scaler-out-of-reach"
TARGET = "native"
MESSAGE = "the scaler cannot be handed to all that needs it"
HINT = "call the function by its name where the optimizer is built, or keep the scaler where it can see it by hand"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop of the kind."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
