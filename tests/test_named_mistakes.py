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


# What the order of statements tells of, in any precision

PLAIN = "for step in range(4):\n    loss = model(torch.ones(2, 4)).mean()\n    loss.backward()\n"
ORDERED = ("AMP107", "AMP240", "AMP243", "AMP302", "AMP308", "AMP309", "AMP404")


def ordered(text: str) -> list[tuple[str, int]]:
    source = SourceFile("train.py", text.encode(), text, "utf-8", b"", "\n")
    found = run_rules(build_project([source], Settings()), Settings())
    return [(f.code, f.anchor.line) for f in found if f.code in ORDERED]


@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [
        ("scheduler.step()", [("AMP240", 8)]),
        ("if scheduler is not None:\n        scheduler.step()", [("AMP240", 9)]),
        ("if step > 2:\n        scheduler.step()", []),
        ("scheduler.step(step)", []),
        ("scheduler.step(metrics=loss)", []),
        ("pass", []),
    ],
)
def test_a_scheduler_comes_after_the_optimizer(scheduling: str, expected: list[tuple[str, int]]) -> None:
    assert ordered(f"{START}{PLAIN}    {scheduling}\n    optimizer.step()\n") == expected
    assert ordered(f"{START}{PLAIN}    optimizer.step()\n    {scheduling}\n") == []


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("    CLIP\n    if step % 2:\n        optimizer.step()\n", [("AMP243", 8)]),
        ("    if step:\n        CLIP\n    if (step + 1) % 2 == 0:\n        optimizer.step()\n", [("AMP243", 9)]),
        ("    if step % 2:\n        CLIP\n        optimizer.step()\n", []),
        ("    CLIP\n    optimizer.step()\n", []),
        ("    CLIP\n    if step % 2:\n        optimizer.step()\n    else:\n        optimizer.step()\n", []),
        ("    CLIP\n    if step:\n        optimizer.step()\n", []),
        ("    CLIP\n    if step % 2:\n        print(step)\n    optimizer.step()\n", []),
        ("    CLIP\n    optimizer.step()\n    if step % 2:\n        optimizer.step()\n", []),
    ],
)
def test_gradients_are_clipped_once_they_are_summed(rest: str, expected: list[tuple[str, int]]) -> None:
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert ordered(START + PLAIN + rest.replace("CLIP", clip)) == expected


def test_what_is_clipped_before_the_backward_is_of_the_round_before() -> None:
    clip = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    loop = PLAIN.replace("    loss = ", f"{clip}    loss = ") + "    if step % 2:\n        optimizer.step()\n"
    assert ordered(START + loop) == []


@pytest.mark.parametrize(
    ("model", "between", "after", "expected"),
    [
        ("torch.nn.Linear(4, 1)", "", "model.cuda()", [("AMP107", 4)]),
        ("torch.nn.Linear(4, 1)", "", "if step:\n    model = model.to('cuda')", [("AMP107", 4)]),
        ("torch.nn.Linear(4, 1)", "", "model.to(torch.float32)", []),
        ("torch.nn.Linear(4, 1)", "", "other.to('cuda')", []),
        ("torch.nn.Linear(4, 1)", "model.cuda()", "model.cuda()", []),
        ("torch.nn.Linear(4, 1).cuda()", "", "model.to(device)", []),
        ("build(4, 1)", "", "model.cuda()", []),
        ("model", "", "model.cuda()", []),
    ],
)
def test_a_model_moves_before_its_optimizer_is_built(
    model: str, between: str, after: str, expected: list[tuple[str, int]]
) -> None:
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    text = f"import torch\nmodel = {model}\n{between}\n{optimizer}\n{after}\n{PLAIN}    optimizer.step()\n"
    assert ordered(text) == expected


@pytest.mark.parametrize(
    ("saved", "expected"),
    [("model", [("AMP404", 9)]), ("model.state_dict()", []), ("other", []), ("[model]", [])],
)
def test_a_model_is_saved_by_its_state(saved: str, expected: list[tuple[str, int]]) -> None:
    assert ordered(f"{START}{PLAIN}    optimizer.step()\ntorch.save({saved}, 'model.pt')\n") == expected


@pytest.mark.parametrize(
    ("iterable", "written", "expected"),
    [
        ("model.parameters()", "p.data.clamp_(-1, 1)", [("AMP309", 9)]),
        ("model.parameters()", "p.clamp_(-1, 1)", [("AMP309", 9)]),
        ("model.parameters()", "p.grad.clamp_(-1, 1)", []),
        ("model.children()", "p.weight.data.clamp_(-1, 1)", []),
    ],
)
def test_parameters_are_bounded_where_masters_may_be(
    iterable: str, written: str, expected: list[tuple[str, int]]
) -> None:
    assert ordered(f"{START}{PLAIN}    for p in {iterable}:\n        {written}\n    optimizer.step()\n") == expected


def test_the_sigmoids_that_models_end_in_are_told_with_the_loss_of_probabilities() -> None:
    text = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid())
        self.body = torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Linear(4, 1))

    def forward(self, x):
        return torch.sigmoid(self.body(x * self.gate(x)))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = LOSS(model(torch.ones(2, 4)), torch.ones(2, 1))
    loss.backward()
    optimizer.step()
"""
    found = ordered(text.replace("LOSS", "torch.nn.functional.binary_cross_entropy"))
    assert found == [("AMP302", 11), ("AMP302", 18)]
    assert ordered(text.replace("LOSS", "torch.nn.functional.mse_loss")) == []
    kept = "        out = self.gate(x)\n        return out.view(-1, 1).squeeze(1)\n"
    text = text.replace("        return torch.sigmoid(self.body(x * self.gate(x)))\n", kept)
    assert ordered(text.replace("LOSS", "torch.nn.functional.binary_cross_entropy")) == [("AMP302", 7), ("AMP302", 19)]


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        ("y.masked_fill(x > 0, -1e9)", [("AMP308", 8)]),
        ("y.masked_fill_(x > 0, value=-65520)", [("AMP308", 8)]),
        ("y.masked_fill(x > 0, -65504)", []),
        ("y.masked_fill(x > 0, True)", []),
        ("y.masked_fill(x > 0, 1e999)", []),
        ("y.masked_fill(x > 0, float('-inf'))", []),
        ("y.masked_fill(x > 0, lowest)", []),
    ],
)
def test_what_float16_cannot_hold_is_told(fill: str, expected: list[tuple[str, int]]) -> None:
    assert ordered(f"{START}{PLAIN}    z = {fill}\n    optimizer.step()\n") == expected
    assert ordered(f"{START}z = {fill}\n") == []


@pytest.mark.parametrize("level", ["O0", "O4", "O5"])
def test_bfloat16_holds_what_float32_does(level: str) -> None:
    text = f"{START}{PLAIN}    z = y.masked_fill(x > 0, -1e9)\n    optimizer.step()\n"
    source = SourceFile("train.py", text.encode(), text, "utf-8", b"", "\n")
    found = run_rules(build_project([source], Settings()), Settings(opt_level=level))
    assert "AMP308" not in {f.code for f in found}
