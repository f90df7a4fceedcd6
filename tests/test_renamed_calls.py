"""Clips, steps and wraps that are called by another name than their own, or given their first argument by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampify.model.settings import Settings, Target
from ampify.pipeline import run

HEAD = """\
import functools
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_ as torch_clip

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 8)).mean()
    loss.backward()
    {clip}
    optimizer.step()
"""
TRAINER = """
class Trainer:
    def __init__(self, clipper=nn.utils.clip_grad_norm_):
        self.clipper = clipper

    def step(self):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).mean()
        loss.backward()
        {clip}
        optimizer.step()


trainer = Trainer()
for step in range(3):
    trainer.step()
"""
RENAMED = {
    "variable": ("clip = nn.utils.clip_grad_norm_", LOOP, "clip({}, 0.1)"),
    "import": ("", LOOP, "torch_clip({}, 0.1)"),
    "imported variable": ("clip = torch_clip", LOOP, "clip({}, 0.1)"),
    "dict": ("clips = {'norm': nn.utils.clip_grad_norm_}", LOOP, "clips['norm']({}, 0.1)"),
    "text": ("clip = getattr(nn.utils, 'clip_grad_norm_')", LOOP, "clip({}, 0.1)"),
    "partial": ("clip = functools.partial(nn.utils.clip_grad_norm_, max_norm=0.1)", LOOP, "clip({})"),
    "field": ("", TRAINER, "self.clipper({}, 0.1)"),
    "by name": ("", LOOP, "nn.utils.clip_grad_norm_(parameters={}, max_norm=0.1)"),
    "value by name": ("", LOOP, "nn.utils.clip_grad_value_(clip_value=0.1, parameters={})"),
}


def migrated(folder: Path, text: str, target: Target) -> str:
    (folder / "train.py").write_text(text, encoding="utf-8")
    report = run([folder], Settings(root=str(folder), target=target))
    after = report.outcomes[0].after
    assert after is not None, report.findings
    return after


@pytest.mark.parametrize("case", RENAMED)
def test_a_clip_is_known_whatever_its_name(case: str, tmp_path: Path) -> None:
    made, body, clip = RENAMED[case]
    text = f"{HEAD}{made}\n" + body.replace("{clip}", clip.format("model.parameters()"))
    assert clip.format("amp.master_params(optimizer)") in migrated(tmp_path, text, "runtime")
    native = migrated(tmp_path, text, "native").replace(" ", "").replace("\n", "")
    assert f"scaler.unscale_(optimizer){clip.format('model.parameters()')}".replace(" ", "") in native


def test_a_clip_that_has_its_parameters_already_waits_for_the_unscaling(tmp_path: Path) -> None:
    kept = "clip = functools.partial(nn.utils.clip_grad_norm_, list(model.parameters()), 0.1)"
    after = migrated(tmp_path, HEAD + kept + LOOP.replace("{clip}", "clip()"), "native")
    assert "    scaler.unscale_(optimizer)\n    clip()\n" in after


@pytest.mark.parametrize(
    "lines",
    [
        ("step_all = optimizer.step", "step_all()"),
        ("", "getattr(optimizer, 'step')()"),
        ("def finish(do):\n    do()\n", "finish(optimizer.step)"),
    ],
)
def test_a_step_under_another_name_is_told(lines: tuple[str, str], tmp_path: Path) -> None:
    made, step = lines
    text = HEAD + made + LOOP.replace("{clip}", "pass").replace("optimizer.step()", step)
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    report = run([tmp_path], Settings(root=str(tmp_path)))
    assert [finding.code for finding in report.findings] == ["AMP205"]
    assert not report.outcomes or report.outcomes[0].after is None


def test_what_is_given_by_name_is_known(tmp_path: Path) -> None:
    text = (
        HEAD
        + "wide = nn.DataParallel(module=model)\n"
        + LOOP.replace("loss.backward()", "torch.autograd.backward(tensors=loss)").replace("{clip}", "pass")
        + "    torch.save(obj={'optimizer': optimizer.state_dict()}, f='last.pt')\n"
    )
    after = migrated(tmp_path, text, "native")
    assert "torch.autograd.backward(tensors=scaler.scale(loss))" in after
    assert "'scaler': scaler.state_dict()" in after or '"scaler": scaler.state_dict()' in after


def test_a_scaler_is_followed_that_is_given_all_by_name(tmp_path: Path) -> None:
    scaled = LOOP.replace("loss.backward()", "scaler.scale(outputs=loss).backward()").replace(
        "optimizer.step()", "scaler.step(optimizer=optimizer)\n    scaler.update()"
    )
    clip = "nn.utils.clip_grad_norm_(parameters=model.parameters(), max_norm=0.1)"
    text = HEAD + "scaler = torch.amp.GradScaler('cuda')\n" + scaled
    for lines, expected in ((clip, ["AMP220"]), (f"scaler.unscale_(optimizer=optimizer)\n    {clip}", [])):
        (tmp_path / "train.py").write_text(text.replace("{clip}", lines), encoding="utf-8")
        report = run([tmp_path], Settings(root=str(tmp_path)))
        assert [finding.code for finding in report.findings] == expected


def test_amp_of_apex_is_left_that_is_given_all_by_name(tmp_path: Path) -> None:
    text = """\
import torch
from apex import amp

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(params=model.parameters(), lr=0.1)
model, optimizer = amp.initialize(models=model, optimizers=optimizer, opt_level="O1")
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(16, 8).cuda()).mean()
    with amp.scale_loss(loss=loss, optimizers=optimizer) as scaled:
        scaled.backward()
    torch.nn.utils.clip_grad_norm_(parameters=amp.master_params(optimizer=optimizer), max_norm=1.0)
    optimizer.step()
"""
    after = migrated(tmp_path, text, "native")
    assert "apex" not in after
    assert "    scaler.scale(loss).backward()\n    scaler.unscale_(optimizer)\n" in after
    assert "clip_grad_norm_(parameters=model.parameters(), max_norm=1.0)\n    scaler.step(optimizer)\n" in after
