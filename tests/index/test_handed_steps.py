"""Steps that are in the files, though no backward is seen to lead to them: what is said of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.settings import Settings
from ampify.pipeline import run

BEGIN = """\
import contextlib
import torch


{around}
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """\
for x in torch.rand(3, 2, 4):
    with training(optimizer):
        model(x).mean().backward()  # here
"""
MANAGER = """\
@contextlib.contextmanager
def training(optimizer):
    optimizer.zero_grad()
    yield
    optimizer.step()  # there
"""
CLASS = """\
class training:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __enter__(self):
        self.optimizer.zero_grad()

    def __exit__(self, *error):
        self.optimizer.step()  # there
"""
STEPS = """\
def training(optimizer):
    for i in range(3):
        optimizer.zero_grad()
        yield i
        optimizer.step()  # there
"""
TAKEN = """\
for i in training(optimizer):
    model(torch.ones(2, 4)).mean().backward()  # here
"""
STACK = """\
for x in torch.rand(3, 2, 4):
    with contextlib.ExitStack() as stack:
        optimizer.zero_grad()
        stack.callback(optimizer.step)  # there
        model(x).mean().backward()  # here
"""


@pytest.mark.parametrize(
    ("around", "loop", "says"),
    [
        (MANAGER, LOOP, "when the step in line {} runs is not understood"),
        (CLASS, LOOP, "when the step in line {} runs is not understood"),
        (STEPS, TAKEN, "when the step in line {} runs is not understood"),
        ("", STACK, "a step is handed on in line {}, to be called elsewhere"),
    ],
)
def test_a_step_in_the_same_file_is_named(around: str, loop: str, says: str, tmp_path: Path) -> None:
    text = BEGIN.format(around=around) + loop
    (tmp_path / "train.py").write_text(text)
    report = run([tmp_path], Settings(root=str(tmp_path)))
    lines = text.splitlines()
    here, there = (next(n for n, line in enumerate(lines, 1) if line.endswith(mark)) for mark in ("# here", "# there"))
    found = {finding.code: finding for finding in report.findings}
    assert found["AMP205"].anchor.line == here
    assert found["AMP205"].message.endswith(says.format(there))
    assert [related.anchor.line for related in found["AMP205"].related] == [there]
    hints = [finding.hint or "" for finding in report.findings]
    assert not any("add the file" in hint for hint in hints)
    if around:
        assert f"the backward in line {here}" in (found["AMP212"].hint or "")


def test_a_step_that_is_handed_on_for_another_model_is_no_reason(tmp_path: Path) -> None:
    other = "other = torch.nn.Linear(4, 1)\nadam = torch.optim.Adam(other.parameters())\nwrapped = print(adam.step)\n"
    check = "optimizer.zero_grad()\nmodel(torch.ones(2, 4)).mean().backward()\noptimizer.zero_grad()\n"
    (tmp_path / "train.py").write_text(BEGIN.format(around="") + other + check)
    report = run([tmp_path], Settings(root=str(tmp_path)))
    assert "AMP205" not in {finding.code for finding in report.findings}
