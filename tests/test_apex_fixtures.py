"""Cases on NVIDIA apex, which cannot be installed here, run as they are once migrated: for the runtime and for torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ampify.model.settings import Settings
from ampify.pipeline import run

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "fixtures"


def on_cpu(text: str) -> str:
    """A script for torch that does on the CPU what it would on a GPU."""
    return text.replace("'cuda'", "'cpu'").replace("next(model.parameters()).is_cuda", "True")


def printed(script: Path, *arguments: str, **environment: str) -> list[list[float]]:
    """The numbers of each line with a loss that a script prints, in float16 unless told otherwise."""
    env = {"PYTHONPATH": str(ROOT / "runtime"), "AMPIFY_DTYPE": "float16", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script.name, *arguments],
        cwd=script.parent,
        env=os.environ | env | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [[float(word) for word in line.split()[1:]] for line in done.stdout.splitlines() if line.startswith("loss")]


def copied(case: str, version: str, folder: Path) -> Path:
    text = (CASES / case / version / "train.py").read_text(encoding="utf-8")
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(on_cpu(text) if version == "after-native" else text, encoding="utf-8")
    return script


def test_fused_parts_train_alike_for_torch_and_on_the_runtime(tmp_path: Path) -> None:
    runtime = printed(copied("apex_fused_parts", "after", tmp_path / "runtime"))
    native = printed(copied("apex_fused_parts", "after-native", tmp_path / "native"))
    assert len(runtime) == 4
    # Apex's layer norm rounds to float16 what torch's leaves in float32.
    for ours, theirs in zip(native, runtime, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)
    full = printed(copied("apex_fused_parts", "after", tmp_path / "full"), AMPIFY_OPT_LEVEL="O0")
    assert full != runtime
    assert full != native


@pytest.mark.parametrize("version", ["after", "after-native"])
def test_their_checkpoints_go_on_exactly(version: str, tmp_path: Path) -> None:
    whole = printed(copied("apex_fused_parts", version, tmp_path / "whole"), "--steps", "0", "4")
    script = copied("apex_fused_parts", version, tmp_path / "parted")
    assert printed(script, "--steps", "0", "2") + printed(script, "--steps", "2", "4") == whole
    # The test can fail: a model that is not loaded begins anew.
    assert printed(script, "--steps", "2", "4", "--checkpoint", "none.pt") != whole[2:]


def test_an_apex_checkpoint_is_read_by_what_was_written_for_torch(tmp_path: Path) -> None:
    """What the runtime saves has apex's keys."""
    saved = copied("apex_fused_parts", "after", tmp_path / "runtime")
    printed(saved, "--steps", "0", "2")
    script = copied("apex_fused_parts", "after-native", tmp_path / "native")
    (script.parent / "last.pt").write_bytes((saved.parent / "last.pt").read_bytes())
    ours, theirs = printed(script, "--steps", "2", "4"), printed(saved, "--steps", "2", "4")
    assert [a == pytest.approx(b, rel=1e-3) for a, b in zip(ours, theirs, strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("case", "on", "off"), [("apex_fp16_optimizer", ["--fp16"], []), ("apex_handle", [], ["--no-amp"])]
)
def test_older_interfaces_train_on_the_runtime(case: str, on: list[str], off: list[str], tmp_path: Path) -> None:
    script = copied(case, "after", tmp_path / "runtime")
    half, full = printed(script, *on), printed(script, *off)
    assert half != full
    assert [a == pytest.approx(b, rel=2e-2) for a, b in zip(half, full, strict=True)] == [True] * 4


@pytest.mark.parametrize("case", ["apex_fp16_optimizer", "apex_handle"])
def test_older_interfaces_are_refused_for_torch(case: str) -> None:
    folder = CASES / case / "before"
    report = run([folder], Settings(root=str(folder), target="native", cache=False))
    assert not any(outcome.after for outcome in report.outcomes)
    assert [loop.state for loop in report.loops] == ["refused"]
    assert any(f.code == "AMP514" and "torch.amp.GradScaler" in f.message for f in report.findings)
