"""Checkpoints whose keys are taken out as they are read: one key more must go with them, or not be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.settings import Settings, Target
from ampify.pipeline import run

SCRIPT = """\
import os
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if os.path.exists("last.pt"):
    ck = torch.load("last.pt")
{resume}
for batch in torch.ones(3, 2, 4):
    optimizer.zero_grad()
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
torch.save({{"optimizer": optimizer.state_dict(), **model.state_dict()}}, "last.pt")
"""
TAKEN = {
    "popped": 'optimizer.load_state_dict(ck.pop("optimizer"))\nmodel.load_state_dict(ck)',
    "deleted": 'optimizer.load_state_dict(ck["optimizer"])\ndel ck["optimizer"]\nmodel.load_state_dict(ck)',
    "popped after": 'optimizer.load_state_dict(ck["optimizer"])\nck.pop("optimizer")\nmodel.load_state_dict(ck)',
}
LEFT = {
    "into a variable": 'state = ck.pop("optimizer")\noptimizer.load_state_dict(state)\nmodel.load_state_dict(ck)',
    "read before": (
        'model.load_state_dict({k: v for k, v in ck.items() if k != "optimizer"})\n'
        'optimizer.load_state_dict(ck.pop("optimizer"))'
    ),
    "in one arm": (
        'if optimizer is not None:\n    optimizer.load_state_dict(ck.pop("optimizer"))\nelse:\n'
        '    ck.pop("optimizer")\nmodel.load_state_dict(ck)'
    ),
    "by a variable key": (
        'for key, one in (("optimizer", optimizer),):\n    one.load_state_dict(ck.pop(key))\nmodel.load_state_dict(ck)'
    ),
}


def migrated(resume: str, folder: Path, target: Target) -> str:
    lines = "".join(f"    {line}\n" for line in resume.splitlines())
    (folder / "train.py").write_text(SCRIPT.format(resume=lines))
    (outcome,) = run([folder], Settings(root=str(folder), target=target)).outcomes
    assert outcome.after is not None
    return outcome.after


@pytest.mark.parametrize("target", ["runtime", "native"])
@pytest.mark.parametrize("resume", TAKEN.values(), ids=TAKEN)
def test_a_state_goes_with_the_optimizers(resume: str, target: Target, tmp_path: Path) -> None:
    after = migrated(resume, tmp_path, target)
    key = "amp" if target == "runtime" else "scaler"
    assert f'ck.pop("{key}"' in after
    assert f'"{key}": ' in after


@pytest.mark.parametrize("target", ["runtime", "native"])
@pytest.mark.parametrize("resume", LEFT.values(), ids=LEFT)
def test_a_state_that_would_be_left_over_is_not_saved(resume: str, target: Target, tmp_path: Path) -> None:
    after = migrated(resume, tmp_path, target)
    assert '"amp"' not in after
    assert '"scaler"' not in after
