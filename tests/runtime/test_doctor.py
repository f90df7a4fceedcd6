"""`python -m ampify_runtime doctor` and `warmup`: what they print of the kernels, and their exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ampify_runtime
import pytest
import torch
from ampify_runtime._commands import doctor, warmup
from ampify_runtime.kernels.diagnosis import Built, Diagnosis, Kernel, diagnose

ROOT = Path(ampify_runtime.__file__).parent.parent


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ampify_runtime", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def diagnosis(kernels: tuple[Kernel, ...], problems: tuple[str, ...] = ()) -> Diagnosis:
    return Diagnosis(
        torch="2.13.0",
        cuda="13.0",
        driver="CUDA 13.0",
        nvrtc="",
        architectures=("sm_90",),
        cache_folder=Path("cache"),
        cache_writable=False,
        kernels=kernels,
        problems=problems,
    )


def test_doctor_describes_this_machine() -> None:
    done = run("doctor")
    assert done.returncode == 0, done.stderr
    assert f"torch          {torch.__version__}" in done.stdout
    assert "cache folder" in done.stdout
    assert sum(line.startswith("  ") for line in done.stdout.splitlines()) == len(diagnose().kernels) > 0


def test_doctor_as_json() -> None:
    found = json.loads(run("doctor", "--json").stdout)
    assert found["torch"] == str(torch.__version__)
    assert {kernel["state"] for kernel in found["kernels"]} <= {"compiled", "cached", "absent", "fallback"}


def test_doctor_tells_a_shared_reason_once_and_any_other_where_it_applies() -> None:
    kernels = (Kernel("adam", "fallback", "no NVRTC"), Kernel("sgd", "fallback", "no NVRTC"))
    lines = list(doctor.lines(diagnosis(kernels, ("no NVRTC",))))
    assert lines[3] == "NVRTC          not found"
    assert lines[5] == "cache folder   cache (not writable)"
    assert [line for line in lines if "no NVRTC" in line] == ["problem        no NVRTC"]
    assert lines[-1].startswith("Plain torch does all the work")
    one = list(doctor.lines(diagnosis((Kernel("adam", "cached"), Kernel("sgd", "fallback", "it did not compile")))))
    assert one[-3:-1] == ["  adam  cached", "  sgd   fallback: it did not compile"]
    assert "those above that fall back" in one[-1]
    assert list(doctor.lines(diagnosis((Kernel("adam", "compiled"),))))[-1] == "Fused kernels are used."


def test_warmup_says_what_it_cannot_do() -> None:
    unknown = run("warmup", "--arch", "sm_1")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("warmup: ")
    assert "Traceback" not in unknown.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU to warm up for")
def test_warmup_without_a_device_wants_an_architecture() -> None:
    done = run("warmup")
    assert done.returncode == 1
    assert "name what to compile for" in done.stderr


def test_warmup_tells_of_each_kernel() -> None:
    assert warmup.line(Built("adam", 0.5, cached=False)) == "adam  compiled in 0.50 s"
    assert warmup.line(Built("adam", 0.0, cached=True)) == "adam  was in the cache"
    assert warmup.line(Built("adam", 0.0, cached=False, error="line 3")) == "adam  failed: line 3"
