"""Binary cross entropy of probabilities gets what a model computes under autocast.

What it does
------------
With `--target native` it keeps calls of `BCELoss` and `binary_cross_entropy` out of the block under autocast, and gives
them their first argument as float32; in a function that is called from there it puts autocast off around them. If their
statement computes more of what the model gave, or runs it, autocast is put off for the loss alone:
`torch.autocast(device_type="cuda", enabled=False)(criterion)(model(x).float(), y)`.

Why it matters
--------------
Autocast refuses these losses on CUDA, as a probability in float16 may be rounded to 0 or 1, where the loss is infinite.

Before
------
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid()).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = torch.nn.BCELoss()
    for step in range(3):
        optimizer.zero_grad()
        output = model(torch.ones(2, 4, device=device))
        loss = criterion(output, torch.ones(2, 1, device=device))
        loss.backward()
        optimizer.step()

After
-----
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid()).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    criterion = torch.nn.BCELoss()
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast(device_type=device.type, dtype=torch.float16, enabled=device.type == "cuda"):
            output = model(torch.ones(2, 4, device=device))
        loss = criterion(output.float(), torch.ones(2, 1, device=device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

Fix safety
----------
Safe: `float()` returns a tensor that is in float32 as it is. `BCEWithLogitsLoss`, without the sigmoid, would be better
still.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampify.model.edit import Edit, Replace, Wrap
from ampify.model.finding import Finding
from ampify.model.project import Project
from ampify.model.scaling import Widening
from ampify.model.settings import Settings
from ampify.rules.scaling import Spelling, plans

CODE = "AMP307"
NAME = "probability-loss-of-half-inputs"
TARGET = "native"
MESSAGE = "autocast refuses this loss, and what it is given would be in half precision"
# What a method can be called on as it stands.
_ATOMS = frozenset({"Name", "Attribute", "Call", "Subscript"})


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """A finding for every such loss that trains."""
    for loop, plan in plans(project, settings):
        for widening in plan.widenings:
            spelling = Spelling.of(project, settings, widening.call)
            edits: list[Edit] = []
            if not widening.text.endswith(".float()"):
                edits.append(Replace(widening.argument, _widened(widening)))
            if widening.around is not None:
                edits.append(Wrap(widening.around, spelling.uncast()))
            if widening.function is not None:
                edits.append(Replace(widening.function, f"{spelling.off()}({widening.function_text})"))
            if edits:
                yield Finding(CODE, NAME, widening.call, MESSAGE, fix=spelling.fix(loop, *edits), loop=loop.id)


def _widened(widening: Widening) -> str:
    text = widening.text if widening.argument.kind in _ATOMS else f"({widening.text})"
    return f"{text}.float()"
