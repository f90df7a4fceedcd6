"""Clips and reads of gradients that no optimizer steps: refused, told, or known to be none, in both targets."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from ampify.model.settings import Settings, Target
from ampify.pipeline import run

CODE = "AMP217"
SET_UP = """\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.trunk(x).relu())


model = Net().to(device)
"""
TRAIN = """
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.rand(2, 4, device=device)).mean()
    loss.backward()
    {use}
    optimizer.step()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)"
READ = "norm = sum(p.grad.norm() ** 2 for p in model.parameters() if p.grad is not None) ** 0.5"
BY_CONDITION = """
bare = ["bias"]
groups = [
    {"params": [p for n, p in model.named_parameters() if not any(b in n for b in bare)], "weight_decay": 0.1},
    {"params": [p for n, p in model.named_parameters() if any(b in n for b in bare)], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=0.1)
"""
BY_SIZE = """
wanted = {n: p for n, p in model.named_parameters() if p.requires_grad}
groups = [
    {"params": [p for n, p in wanted.items() if p.dim() >= 2], "weight_decay": 0.1},
    {"params": [p for n, p in wanted.items() if p.dim() < 2], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=0.1)
"""
IN_A_LOOP = """
decay, bare = [], []
for name, parameter in model.named_parameters():
    if not parameter.requires_grad:
        continue
    if parameter.ndim == 1:
        bare.append(parameter)
    elif "trunk" in name:
        decay.append(parameter)
    else:
        decay.append(parameter)
optimizer = torch.optim.AdamW([{"params": decay}, {"params": bare, "weight_decay": 0.0}], lr=0.1)
"""
FILTERED = """
needed = []
for parameter in filter(lambda p: p.requires_grad, model.parameters()):
    needed.append(parameter)
optimizer = torch.optim.Adam(needed, lr=0.1)
"""
ONE_LEFT_OUT = IN_A_LOOP.replace('{"params": decay}, ', "")
WITH_A_GAP = IN_A_LOOP.replace("    else:\n        decay.append(parameter)\n", "")
GENERATOR = """
def chosen(model, word):
    for name, parameter in model.named_parameters():
        if word in name:
            yield parameter


optimizer = torch.optim.SGD(chosen(model, "head"), lr=0.1)
"""
FREEZE = "for p in model.trunk.parameters():\n    p.requires_grad = False\n"
HEAD = "optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)\n"
BY_NAME = 'optimizer = torch.optim.SGD([p for n, p in model.named_parameters() if "head" in n], lr=0.1)\n'
SEVERAL = """
groups = [
    {"params": [p for n, p in model.named_parameters() if "head" in n]},
    {"params": [p for n, p in model.named_parameters() if "trunk" in n], "lr": 0.01},
]
optimizer = torch.optim.SGD(groups, lr=0.1)
"""


def doubts(folder: Path, text: str, target: Target) -> set[bool]:
    """Whether the findings of the rule refuse."""
    (folder / "train.py").write_text(dedent(text), encoding="utf-8")
    report = run([folder], Settings(root=str(folder), target=target))
    return {finding.refuses for finding in report.findings if finding.code == CODE}


@pytest.mark.parametrize("target", ["runtime", "native"])
@pytest.mark.parametrize("use", [CLIP, READ], ids=["clip", "read"])
@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        pytest.param("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", set(), id="whole"),
        pytest.param(HEAD, {True}, id="part"),
        pytest.param(BY_NAME, {True}, id="some by name"),
        pytest.param(GENERATOR, {True}, id="some by a generator"),
        pytest.param(FREEZE + HEAD, {False}, id="part, the rest frozen"),
        pytest.param(SEVERAL, {False}, id="several groups by name"),
        pytest.param(BY_CONDITION, set(), id="a condition and its opposite"),
        pytest.param(BY_SIZE, set(), id="two comparisons"),
        pytest.param(IN_A_LOOP, set(), id="every branch of a loop"),
        pytest.param(FILTERED, set(), id="a loop over a filter"),
        pytest.param(FILTERED.replace("p.requires_grad", "p.ndim > 1"), {True}, id="a loop over another filter"),
        pytest.param(ONE_LEFT_OUT, {True}, id="one list is not given"),
        pytest.param(WITH_A_GAP, {False}, id="a branch is missing"),
    ],
)
def test_what_an_optimizer_lacks_is_told(
    optimizer: str, expected: set[bool], use: str, target: Target, tmp_path: Path
) -> None:
    assert doubts(tmp_path, SET_UP + optimizer + TRAIN.format(use=use), target) == expected


def test_a_clip_of_what_the_optimizer_has_is_right_whatever_the_rest_is(tmp_path: Path) -> None:
    use = "torch.nn.utils.clip_grad_norm_(model.head.parameters(), 0.5)"
    assert doubts(tmp_path, SET_UP + HEAD + TRAIN.format(use=use), "runtime") == set()


def test_one_of_several_models_is_stepped_and_clipped_as_it_is(tmp_path: Path) -> None:
    choice = "import sys\nif len(sys.argv) > 1:\n    model = torch.nn.Linear(4, 1).to(device)\n"
    optimizer = "model = torch.nn.DataParallel(model)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    assert doubts(tmp_path, SET_UP + choice + optimizer + TRAIN.format(use=CLIP), "runtime") == set()


def test_the_parameters_of_a_loss_that_nothing_steps_are_told(tmp_path: Path) -> None:
    loss = "weigh = torch.nn.Linear(1, 1).to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    train = TRAIN.replace(".mean()\n", ".mean()\n    loss = weigh(loss[None]).sum()\n")
    text = SET_UP + loss + train.format(use="print(weigh.weight.grad.norm())")
    assert doubts(tmp_path, text, "runtime") == {True}


def test_an_optimizer_that_may_seem_to_be_around_itself_is_followed_to_an_end(tmp_path: Path) -> None:
    around = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor part in 'lookahead', 'plain':\n"
    wrapped = "from timm.optim.lookahead import Lookahead\n" + around + "    optimizer = Lookahead(optimizer)\n"
    (tmp_path / "train.py").write_text(SET_UP + wrapped + TRAIN.format(use=CLIP), encoding="utf-8")
    report = run([tmp_path], Settings(root=str(tmp_path)))
    assert "AMP901" not in {finding.code for finding in report.findings}
    assert len([entry for entry in report.ledger if entry.site.kind == "backward"]) == 1
