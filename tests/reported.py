"""Reports of real runs, for the tests of their writers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ampify import pipeline
from ampify.model.plan import Report
from ampify.model.settings import Settings
from tests.processes import ROOT

CASES = ROOT / "fixtures"

# A loop that is migrated, one that is refused, one that is right, and a file that does not parse.
MIXED = {
    "train.py": """\
import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 4)).pow(2).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
""",
    "fit.py": """\
import torch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.LBFGS(model.parameters())


def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(8, 4)).pow(2).mean()
    loss.backward()
    return loss


optimizer.step(closure)
""",
    "done.py": """\
import torch
from ampify_runtime import amp

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
loss = model(torch.ones(8, 4)).mean()
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
""",
    "torn.py": "import torch\nloss.backward(\n",
}


def report_of(folder: Path, files: Mapping[str, str], **settings: object) -> Report:
    """The report of a run over files written into `folder`, from there."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return _run(folder, Settings(cache=False, **settings))  # type: ignore[arg-type]


@cache
def report_of_case(name: str) -> Report:
    """The report of a case of `fixtures/`, run from its folder."""
    return _run(CASES / name / "before", Settings(cache=False))


def _run(folder: Path, settings: Settings) -> Report:
    here = Path.cwd()
    os.chdir(folder)
    try:
        return pipeline.run([Path()], settings)
    finally:
        os.chdir(here)
