"""Scripts in apex's style, of documented calls alone, run with nothing changed but the root of their imports."""

from __future__ import annotations

import multiprocessing
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .ranks import free_port

SCRIPTS = Path(__file__).parent / "apex_scripts"
IMPORT = re.compile(r"\bapex\b(?=[. \n])")


def migrated(name: str, folder: Path) -> Path:
    """The script with `apex` called `ampify_runtime`, where it is imported and where it is used."""
    text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    docstring, code = text.split('"""', 2)[1:]
    path = folder / f"{name}.py"
    path.write_text(f'"""{docstring}"""{IMPORT.sub("ampify_runtime", code)}', encoding="utf-8")
    return path


def run(script: Path, *words: str, **environment: str) -> list[str]:
    """The lines that a script prints; on the CPU with amp at work in float16.

    In a fork of this process: to import torch takes longer than a script does.
    """
    output = script.with_suffix(".out")
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_be_script, args=(script, words, environment, output))
    child.start()
    child.join()
    printed = output.read_text(encoding="utf-8")
    assert child.exitcode == 0, printed
    return printed.splitlines()


def _be_script(script: Path, words: tuple[str, ...], environment: dict[str, str], output: Path) -> None:
    with output.open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    os.environ.update({"AMPIFY_DTYPE": "float16"} | environment)
    torch.set_num_threads(1)
    sys.argv = [str(script), *words]
    runpy.run_path(str(script), run_name="__main__")


def assert_learns(lines: list[str], factor: float = 0.9) -> None:
    """The last loss that was printed is less than `factor` times the first."""
    (losses,) = (line.split()[1:] for line in lines if line.startswith("loss "))
    first, last = map(float, losses)
    assert last < factor * first


OPTIONS = {
    "O0": ["--opt-level", "O0"],
    "O1": ["--opt-level", "O1"],
    "O1, static scale as text": ["--opt-level", "O1", "--loss-scale", "128.0"],
    "O2": ["--opt-level", "O2", "--loss-scale", "dynamic"],
    "O2, norms too": ["--opt-level", "O2", "--keep-batchnorm-fp32", "False"],
    "O3, norms in fp32": ["--opt-level", "O3", "--keep-batchnorm-fp32", "True", "--loss-scale", "128.0"],
    "O4": ["--opt-level", "O4"],
    "O5": ["--opt-level", "O5"],
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_imagenet_style(options: list[str], tmp_path: Path) -> None:
    script = migrated("imagenet_style", tmp_path)
    lines = run(script, *options, "--checkpoint", str(tmp_path / "saved.pt"))
    assert "resumed True" in lines
    assert_learns(lines)


def test_dcgan_style(tmp_path: Path) -> None:
    lines = run(migrated("dcgan_style", tmp_path))
    assert "scales loss_scaler0 loss_scaler1 loss_scaler2" in lines
    assert_learns(lines)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_distributed_style(level: str, tmp_path: Path) -> None:
    """Under torch's launcher, in processes of their own."""
    logs = tmp_path / "logs"
    launch = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1"]
    # A file for each rank: two that share a pipe write into each other's lines.
    launch += ["--redirects=1", f"--log_dir={logs}"]
    script = migrated("distributed_style", tmp_path)
    done = subprocess.run(
        [sys.executable, *launch, f"--master_port={free_port()}", str(script), "--opt-level", level],
        env=os.environ | {"AMPIFY_DTYPE": "float16", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for file in sorted(logs.rglob("stdout.log")) for line in file.read_text().splitlines()]
    assert lines.count("same on all ranks True") == 2
    assert_learns(lines)


def test_handle_style(tmp_path: Path) -> None:
    lines = run(migrated("handle_style", tmp_path), AMPIFY_CAST_LISTS="apex")
    assert "types torch.float16 torch.float32" in lines
    assert_learns(lines)


def test_trainer_style(tmp_path: Path) -> None:
    assert_learns(run(migrated("trainer_style", tmp_path)))


def test_fp16_utils_style(tmp_path: Path) -> None:
    lines = run(migrated("fp16_utils_style", tmp_path))
    assert "scale grew True" in lines
    assert "by hand True" in lines
    assert_learns(lines)


def test_fused_style(tmp_path: Path) -> None:
    lines = run(migrated("fused_style", tmp_path))
    assert "larc True" in lines
    assert "applied True 0" in lines
    assert_learns(lines)
