"""The example is an ordinary script, the demonstration passes on it, and its verdict can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from verdict import Check, Run, close, identical, judge, judge_resumed, read_epochs, table

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "digits"

GOOD = """\
Train Epoch: 1 [0/1437 (0%)]\tLoss: 2.338865
====> Epoch: 1 Average loss: 1.185899
Test set: Average loss: 0.9708, Accuracy: 334/360 (92.78%)

Train Epoch: 2 [0/1437 (0%)]\tLoss: 0.281474
====> Epoch: 2 Average loss: 0.283666
Test set: Average loss: 0.1854, Accuracy: 348/360 (96.67%)
"""


def run_of(tmp_path: Path, name: str, output: str = GOOD, **state: object) -> Run:
    checkpoint = tmp_path / name
    torch.save({"epoch": 2, "model": {"weight": torch.arange(4.0)}} | state, checkpoint)
    return Run(output, read_epochs(output), checkpoint)


def demands_met(checks: tuple[Check, ...]) -> list[bool]:
    return [check.met for check in checks]


def test_example_knows_nothing_of_mixed_precision() -> None:
    source = (EXAMPLE / "train.py").read_text(encoding="utf-8").lower()
    assert not [word for word in ("amp.", "ampify", "autocast", "scaler", "float16", "half(") if word in source]


def run_demo(work: Path, epochs: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "examples/demo.py", "--epochs", str(epochs), "--work", str(work)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")])},
        capture_output=True,
        text=True,
        check=False,
    )


# One test, not several on a shared fixture: parallel workers would each give the whole demonstration.
def test_demo_migrates_a_copy_and_passes(tmp_path: Path) -> None:
    source = (EXAMPLE / "train.py").read_bytes()
    done = run_demo(tmp_path, epochs=3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  yes  ") == 7
    assert "  NO   " not in done.stdout

    assert "+        with amp.scale_loss(loss, optimizer) as scaled_loss:\n" in done.stdout
    assert (EXAMPLE / "train.py").read_bytes() == source
    assert (tmp_path / "original" / "train.py").read_bytes() == source
    migrated = (tmp_path / "migrated" / "train.py").read_text(encoding="utf-8")
    assert "from ampify_runtime import amp\n" in migrated
    assert "model, optimizer = amp.initialize(model, optimizer, opt_level='O1')\n" in migrated
    assert "ampify" in (tmp_path / "migrated" / "requirements.txt").read_text(encoding="utf-8")

    checkpoint = torch.load(tmp_path / "original" / "last.pt", weights_only=True)
    assert checkpoint["epoch"] == 3
    assert "amp" not in checkpoint
    assert "amp" in torch.load(tmp_path / "migrated" / "resumed-bfloat16.pt", weights_only=True)


def test_verdict_accepts_a_run_that_holds_up(tmp_path: Path) -> None:
    original, plain = run_of(tmp_path, "a"), run_of(tmp_path, "b", amp={})
    reduced = run_of(tmp_path, "c", GOOD.replace("2.338865", "2.341003").replace("0.283666", "0.294412"))
    assert demands_met(judge(original, plain, reduced)) == [True, True, True, True]
    assert demands_met(judge_resumed(original, plain, reduced)) == [True, True, True]


@pytest.mark.parametrize(
    ("plain_state", "plain_output"),
    [
        ({"model": {"weight": torch.tensor([0.0, 1.0, 2.0, 3.0000002])}}, GOOD),
        ({"model": {"weight": torch.arange(4.0, dtype=torch.float64)}}, GOOD),
        ({"model": {}}, GOOD),
        ({"epoch": 1}, GOOD),
        ({}, GOOD.replace("0.9708", "0.9709")),
        ({}, ""),
    ],
    ids=["one bit of one weight", "another dtype", "a weight lost", "another epoch", "another line", "no output"],
)
def test_verdict_sees_what_is_not_identical(tmp_path: Path, plain_state: dict[str, object], plain_output: str) -> None:
    original, plain = run_of(tmp_path, "a"), run_of(tmp_path, "b", plain_output, **plain_state)
    assert identical(original, run_of(tmp_path, "c"))
    assert not identical(original, plain)


@pytest.mark.parametrize(
    ("output", "met"),
    [
        (GOOD, [False, True, True]),
        (GOOD.replace("2.338865", "2.3").replace("0.283666", "0.383666"), [True, False, True]),
        (GOOD.replace("2.338865", "2.3").replace("0.283666", "nan"), [True, False, True]),
        (GOOD.replace("2.338865", "2.3").replace("96.67%", "94.50%"), [True, True, False]),
        ("", [False, False, False]),
    ],
    ids=["same losses", "loss too far", "not a number", "accuracy lost", "no output"],
)
def test_verdict_sees_what_does_not_follow(tmp_path: Path, output: str, met: list[bool]) -> None:
    original = run_of(tmp_path, "a")
    assert demands_met(judge(original, original, run_of(tmp_path, "b", output)))[1:] == met


def test_verdict_needs_all_epochs(tmp_path: Path) -> None:
    first_epoch = GOOD[: GOOD.index("Train Epoch: 2")]
    assert not close(run_of(tmp_path, "a"), run_of(tmp_path, "b", first_epoch))


def test_table_puts_runs_side_by_side(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a")
    last = table({"original": run, "migrated": run}).splitlines()[-1]
    assert last.split() == ["2", "0.2837", "0.1854", "96.67", "%", "0.2837", "0.1854", "96.67", "%"]
