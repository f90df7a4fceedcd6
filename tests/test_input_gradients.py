"""What is said of a gradient that is read and is of no model's known parameter: an input's, or a master parameter's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.finding import Finding
from ampify.model.settings import Settings
from ampify.pipeline import run

MASTERS = """\
import torch
from halves import {maker}

model = torch.nn.Linear(4, 1)
halves, masters = {maker}(model)
optimizer = torch.optim.SGD(masters, lr=0.1)
for step in range(3):
    model.zero_grad()
    loss = model(torch.ones(2, 4)).mean() * 128.0
    loss.backward()
    for master, half in zip(masters, halves):
        master.grad = half.grad.float()
    for master in masters:
        master.grad.data.mul_(1 / 128.0)
    optimizer.step()
"""
INPUT = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
noise = torch.zeros(2, 4, requires_grad=True)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4) + noise).mean().backward()
    optimizer.step()
    noise = (noise.detach() + noise.grad.sign()).requires_grad_()
"""


def reads(folder: Path, text: str) -> list[Finding]:
    (folder / "train.py").write_text(text)
    report = run([folder], Settings(root=str(folder)))
    assert report.outcomes[0].status == "refused"
    return [finding for finding in report.findings if finding.code == "AMP203"]


@pytest.mark.parametrize("maker", ["split_parameters", "prep_param_lists"])
def test_of_a_master_parameter_kept_by_hand_it_is_not_said_that_it_is_no_parameter(maker: str, tmp_path: Path) -> None:
    found = reads(tmp_path, MASTERS.format(maker=maker))
    assert 14 in {finding.anchor.line for finding in found}
    told = next(finding for finding in found if finding.anchor.line == 14)
    assert "may be master parameters that the script keeps by itself" in told.message
    assert "no parameter" not in told.message
    assert "model.parameters()" in (told.hint or "")


def test_of_an_input_nothing_is_said_of_master_parameters(tmp_path: Path) -> None:
    (told,) = reads(tmp_path, INPUT)
    assert told.anchor.line == 10
    assert "master" not in told.message
    assert "a backward of its own" in (told.hint or "")
