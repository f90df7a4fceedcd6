"""A training that is saved and gone on with in a new process ends where one that was not interrupted does, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = """
import sys
import torch
from torch import nn
from torch.nn import functional as F
from ampify_runtime import amp

level, order, first, last, read, write = sys.argv[1:]
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.LayerNorm(144), nn.Linear(144, 3))
# In pure float16, Adam's epsilon is 0.
kind = torch.optim.SGD if level == "O3" else torch.optim.Adam
optimizer = kind(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, gamma=0.5)


def load():
    checkpoint = torch.load(read, weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    amp.load_state_dict(checkpoint["amp"])


if read and order == "before":
    load()
# O3 as apex had it scales nothing; with a scale it has something to resume.
keywords = {"loss_scale": "dynamic"} if level == "O3" else {}
model, optimizer = amp.initialize(model, optimizer, opt_level=level, verbosity=0, **keywords)
if read and order == "after":
    load()
for step in range(int(first), int(last)):
    torch.manual_seed(step)
    inputs, target = torch.randn(6, 1, 8, 8), torch.randint(0, 3, (6,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), target)
    if step in (3, 14) and level in ("O1", "O2", "O3"):
        loss = loss * float("inf")
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
    optimizer.step()
    scheduler.step()
states = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "amp": amp}
torch.save({name: part.state_dict() for name, part in states.items()}, write)
"""


def run(folder: Path, level: str, order: str, steps: tuple[int, int], read: str, write: str) -> None:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AMPIFY_")}
    environment |= {"PYTHONPATH": os.pathsep.join(sys.path), "AMPIFY_DTYPE": "float16", "OMP_NUM_THREADS": "1"}
    arguments = [level, order, *map(str, steps), read, write]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def flat(state: object) -> list[torch.Tensor]:
    if isinstance(state, dict):
        return [leaf for value in state.values() for leaf in flat(value)]
    if isinstance(state, (list, tuple)):
        return [leaf for value in state for leaf in flat(value)]
    return [torch.as_tensor(state)] if isinstance(state, (torch.Tensor, int, float)) else []


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3", "O4", "O5"])
def test_resumes_bit_for_bit(level: str, tmp_path: Path) -> None:
    order = {"O1": "before", "O5": "before"}.get(level, "after")
    run(tmp_path, level, order, (0, 20), "", "whole.pt")
    run(tmp_path, level, order, (0, 10), "", "half.pt")
    run(tmp_path, level, order, (10, 20), "half.pt", "resumed.pt")
    whole, resumed, half = (torch.load(tmp_path / f"{n}.pt", weights_only=True) for n in ("whole", "resumed", "half"))
    assert whole["amp"] == resumed["amp"]
    assert whole["scheduler"] == resumed["scheduler"]
    for part in ("model", "optimizer"):
        expected, got, before = flat(whole[part]), flat(resumed[part]), flat(half[part])
        assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))
        assert not all(torch.equal(a, b) for a, b in zip(expected, before, strict=True))
    assert {value.dtype for value in whole["model"].values()} == {torch.float32, torch.int64}
    scales = level in ("O1", "O2", "O3")
    assert (whole["amp"]["loss_scaler0"]["loss_scale"] > 1.0) == scales
    assert whole["amp"]["loss_scaler0"]["unskipped"] < 20
