"""Scripts in the older interfaces of apex's amp: they move to the runtime as they are, or what is nearest is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ampify.model.plan import Report
from ampify.model.settings import Settings, Target
from ampify.pipeline import run

ROOT = Path(__file__).resolve().parents[1]
TRAINING = """\
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
{begin}
for step in range(6):
    x, y = torch.randn(16, 8), torch.randn(16, 4)
    loss = torch.nn.functional.mse_loss(model(x).float(), y)
    optimizer.zero_grad()
{backward}
    optimizer.step()
    print("loss", repr(loss.item()))
"""
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"


def scaled(by: str) -> str:
    return f"    with {by} as scaled_loss:\n        scaled_loss.backward()"


def script(imports: str, begin: str, backward: str) -> str:
    return f"import torch\n{imports}\n\n{TRAINING.format(begin=begin, backward=backward)}"


OLDER = {
    "handle": script(
        "from apex import amp", f"handle = amp.init()\n{SGD}", scaled("handle.scale_loss(loss, optimizer)")
    ),
    "wrapped": script(
        "from apex import amp",
        f"handle = amp.init(loss_scale=128.0)\n{SGD}\noptimizer = handle.wrap_optimizer(optimizer)",
        scaled("optimizer.scale_loss(loss)"),
    ),
    "trainer": script(
        "from apex import amp",
        f"amp.init()\n{SGD}\namp.init_trainer(optimizer)",
        scaled("amp.scale_loss(loss, optimizer)"),
    ),
    "masters": script(
        "from apex.fp16_utils import FP16_Optimizer, network_to_half",
        f"model = network_to_half(model)\n{SGD}\noptimizer = FP16_Optimizer(optimizer, static_loss_scale=128.0)",
        "    optimizer.backward(loss)\n    optimizer.clip_master_grads(0.1)",
    ),
    "masters of two losses": script(
        "from apex.fp16_utils import FP16_Optimizer",
        f"model.half()\n{SGD}\noptimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)",
        "    optimizer.backward(loss, update_master_grads=False)\n"
        "    optimizer.backward(model(x).float().pow(2).mean(), update_master_grads=False)\n"
        "    optimizer.update_master_grads()",
    ).replace("model(x)", "model(x.half())"),
}
NEAREST = ("torch.autocast", "torch.amp.GradScaler")


def migrated(text: str, folder: Path, target: Target) -> tuple[str, Report]:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(text, encoding="utf-8")
    report = run([folder], Settings(root=str(folder), target=target, cache=False))
    (outcome,) = (o for o in report.outcomes if o.path.endswith("train.py"))
    return outcome.after or text, report


def losses(text: str, folder: Path) -> list[float]:
    (folder / "run.py").write_text(text, encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(ROOT / "runtime"), "AMPIFY_DTYPE": "float16", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("loss")]


@pytest.mark.parametrize("name", OLDER)
def test_on_the_runtime_it_is_the_same_script_and_trains(name: str, tmp_path: Path) -> None:
    """Nothing is initialized, or scaled, a second time."""
    after, report = migrated(OLDER[name], tmp_path, "runtime")
    assert after == OLDER[name].replace("from apex", "from ampify_runtime")
    assert [loop.state for loop in report.loops] == ["migrated"]
    assert not any(finding.refuses for finding in report.findings)
    found = losses(after, tmp_path)
    plain = losses(script("", SGD, "    loss.backward()"), tmp_path)
    assert len(found) == len(plain) == 6
    # The first forward is the model's own, in half precision.
    assert found[0] == pytest.approx(plain[0], rel=1e-2)
    assert found[0] != plain[0]


@pytest.mark.parametrize("name", [name for name in OLDER if "masters" not in name])
def test_for_torch_it_is_refused_and_the_nearest_named(name: str, tmp_path: Path) -> None:
    after, report = migrated(OLDER[name], tmp_path, "native")
    assert after == OLDER[name]
    assert [loop.state for loop in report.loops] == ["refused"]
    (told,) = [f.message for f in report.findings if f.code == "AMP514"]
    assert all(word in told for word in NEAREST)


@pytest.mark.parametrize("name", OLDER)
def test_one_that_is_on_the_runtime_stays_there(name: str, tmp_path: Path) -> None:
    text = OLDER[name].replace("from apex", "from ampify_runtime")
    for target in ("runtime", "native"):
        after, report = migrated(text, tmp_path, target)
        assert (after, [loop.state for loop in report.loops]) == (text, ["right"])


@pytest.mark.parametrize("target", ["runtime", "native"])
def test_a_loss_that_is_not_scaled_beside_one_that_is_refuses_the_loop(target: Target, tmp_path: Path) -> None:
    text = OLDER["handle"].replace("    optimizer.step()", "    model(x).mean().backward()\n    optimizer.step()")
    after, report = migrated(text, tmp_path, target)
    assert "amp.initialize" not in after
    assert [loop.state for loop in report.loops] == ["refused"]
    assert ("AMP514", True) in {(f.code, f.refuses) for f in report.findings}


@pytest.mark.parametrize("target", ["runtime", "native"])
@pytest.mark.parametrize("module", ["optimizers", "contrib.optimizers"])
def test_the_optimizer_that_only_apex_has_keeps_its_loop_there(module: str, target: Target, tmp_path: Path) -> None:
    text = script(
        f"from apex.{module} import FP16_Optimizer, FusedAdam",
        "model.half()\noptimizer = FusedAdam(model.parameters(), lr=1e-3)\n"
        "optimizer = FP16_Optimizer(optimizer, static_loss_scale=128.0)",
        "    optimizer.backward(loss)",
    )
    after, report = migrated(text, tmp_path, target)
    assert after == text
    assert [loop.state for loop in report.loops] == ["refused"]
    told = [f for f in report.findings if "FP16_Optimizer" in f.message]
    assert told
    assert all(f.refuses and ("nearest" in f.hint or "nearest" in f.message) for f in told)


def test_an_argument_that_apexs_optimizer_takes_no_more_is_named(tmp_path: Path) -> None:
    """apex's own has not taken it since 2019, and the runtime's does not: what is to be done stands in the finding."""
    text = script(
        "from apex import amp\nfrom apex.optimizers import FusedAdam",
        "optimizer = FusedAdam(\n    model.parameters(), lr=1e-3,\n    max_grad_norm=1.0)\n"
        'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")',
        scaled("amp.scale_loss(loss, optimizer)"),
    )
    (tmp_path / "train.py").write_text(text)
    expected: list[tuple[Target, str, str]] = [
        ("runtime", "AMP503", "clip_grad_norm_"),
        ("native", "AMP512", "AdamW"),
    ]
    for target, code, word in expected:
        report = run([tmp_path / "train.py"], Settings(root=str(tmp_path), target=target, cache=False))
        told = [f for f in report.findings if f.code == code and f.refuses and "max_grad_norm" in f.message]
        assert [word in f.hint for f in told] == [True]
    plain = text.replace(",\n    max_grad_norm=1.0", "")
    (tmp_path / "train.py").write_text(plain)
    report = run([tmp_path / "train.py"], Settings(root=str(tmp_path), cache=False))
    assert not any(f.refuses for f in report.findings)
