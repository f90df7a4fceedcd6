"""The script that checks a GPU: rehearsed on emulated kernels, and run where there is a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.py"


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False)


@pytest.mark.kernels
def test_rehearsal(build_folder: Path) -> None:
    done = _run("--rehearse", str(build_folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    assert done.stdout.count("\nok  ") == 15


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_without_a_gpu_there_is_nothing_to_check() -> None:
    done = _run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("the kernels cannot be used here: ")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu() -> None:
    done = _run("--parameters", "10000000")
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL") and " ms" not in line]
    assert failed == [], done.stdout + done.stderr
