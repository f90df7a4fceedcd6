"""The statements that run the model cannot be put under autocast by themselves.

What it does
------------
With `--target native` it refuses a loop of which the forward cannot be told from the rest: no statement was found that
runs the model for a loss, a generator hands out values in between, or the loss is one that autocast refuses and what it
is given is not spelled out.

Why it matters
--------------
A forward outside autocast runs in float32 without a word; a backward or step inside it is wrong.

Before
------
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid()).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = torch.nn.BCELoss()
    for step in range(3):
        optimizer.zero_grad()
        pair = (model(torch.ones(2, 4, device=device)), torch.ones(2, 1, device=device))
        loss = criterion(*pair)
        loss.backward()
        optimizer.step()

Hint
----
Give the loss a statement of its own in the function of its backward; use `BCEWithLogitsLoss` in place of a sigmoid and
`BCELoss`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.rules.refusal import refusals

CODE = "AMP230"
NAME = "forward-not-parted"
TARGET = "native"
MESSAGE = "the forward of this training loop cannot be put under autocast"
HINT = "give the loss a statement of its own beside its backward; use BCEWithLogitsLoss for a sigmoid and BCELoss"


def check(project: Project, settings: Settings) -> Iterable[Finding]:
    """A refusal of every loop of the kind."""
    return refusals(project, CODE, NAME, MESSAGE, HINT)
