"""Mistakes of mixed precision that names tell of: where they are told, and what only looks like them."""

from __future__ import annotations

import pytest

from ampify.index import build_project
from ampify.model.settings import Settings
from ampify.model.source import SourceFile
from ampify.rules import run_rules

START = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
SCALER = 'scaler = torch.amp.GradScaler("cuda")\n'
STEP = """\
for step in range(3):
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(torch.ones(2, 4)).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
NAMED = ("AMP106", "AMP124", "AMP240", "AMP241", "AMP326", "AMP327", "AMP423")


def said(text: str) -> list[tuple[str, int]]:
    source = SourceFile("train.py", text.encode(), text, "utf-8", b"", "\n")
    found = run_rules(build_project([source], Settings()), Settings())
    return [(f.code, f.anchor.line) for f in found if f.code in NAMED]


def test_a_right_loop_is_told_of_nothing() -> None:
    assert said(START + SCALER + STEP) == []


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        ("if model.training:\n    scaler = torch.amp.GradScaler('cuda')\n", [("AMP124", 11)]),
        ("if model.training:\n    scaler = torch.amp.GradScaler('cuda')\nelse:\n    scaler = None\n", []),
        ("scaler = None\nif model.training:\n    scaler = torch.amp.GradScaler('cuda')\n", []),
        ("if model.training:\n    scaler = torch.amp.GradScaler('cuda')\nelse:\n    raise ValueError\n", []),
        ("try:\n    scaler = torch.amp.GradScaler('cuda')\nexcept ValueError:\n    scaler = None\n", []),
    ],
)
def test_a_scaler_is_bound_whatever_the_condition(binding: str, expected: list[tuple[str, int]]) -> None:
    assert said(START + binding + STEP) == expected


@pytest.mark.parametrize("use", ["scaler.state_dict() if on else None", "on and scaler.state_dict()"])
def test_a_use_under_a_condition_of_its_own_is_the_authors_matter(use: str) -> None:
    bound = "on = model.training\nif on:\n    scaler = torch.amp.GradScaler('cuda')\n"
    under = "if on:\n" + "".join(f"    {line}\n" for line in STEP.splitlines())
    assert said(f"{START}{bound}{under}state = {use}\n") == []


def test_a_scheduler_may_step_once_an_epoch_after_its_batches() -> None:
    text = START + SCALER + "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"
    late = f"{text}{STEP}    scheduler.step()\n"
    early = f"{text}for epoch in range(2):\n    scheduler.step()\n" + "".join(f"    {s}\n" for s in STEP.splitlines())
    assert said(late) == []
    assert said(early) == [("AMP240", 8)]


def test_an_update_after_the_condition_is_for_all_its_branches() -> None:
    branches = "if step:\n        scaler.step(optimizer)\n    else:\n        scaler.step(optimizer)\n"
    assert said(START + SCALER + STEP.replace("scaler.step(optimizer)\n", branches)) == []


def test_reduced_precision_of_any_kind_goes_with_a_scaler() -> None:
    plain = STEP.replace('with torch.autocast("cuda"):', "if True:")
    assert said(START + SCALER + plain) == [("AMP326", 5)]
    assert said(START + SCALER + plain.replace("torch.ones(2, 4)", "torch.ones(2, 4).half()")) == []


@pytest.mark.parametrize("context", ['"cuda", dtype=torch.bfloat16', '"cpu"', '"cuda", enabled=False', "device"])
def test_an_autocast_that_needs_no_scaler(context: str) -> None:
    unscaled = STEP.replace("scaler.scale(loss)", "loss").replace("scaler.step(optimizer)", "optimizer.step()")
    unscaled = unscaled.replace("    scaler.update()\n", "")
    assert said(START + unscaled) == [("AMP327", 7)]
    assert said(START + unscaled.replace('"cuda"', context)) == []
