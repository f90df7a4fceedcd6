"""Whole verifications of scripts that train as they should, and of scripts of which nothing can be said."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import ENVIRONMENT, ROOT, command
from tests.verify.planted import CASES, TIME_LIMIT, verified

FIXTURES = ROOT / "fixtures"


def ampify(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env={**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=2 * TIME_LIMIT,
        check=False,
    )


def place(tmp_path: Path, *cases: str) -> Path:
    for case in cases:
        shutil.copy(CASES / case, tmp_path / case)
    return tmp_path


def test_a_project_of_several_files_with_all_reports(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "four_files" / "before", tmp_path, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    reports = [
        argument for name in ("v.json", "v.md", "v.html") for argument in ("--report", str(tmp_path.parent / name))
    ]
    done = ampify(tmp_path, "verify", "main.py", "--seeds", "1", *reports)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(("same: ", "within noise: "))
    document = json.loads((tmp_path.parent / "v.json").read_text())
    assert document["schema"] == 1
    assert document["verdict"]["good"] is True
    assert [run["name"] for run in document["runs"]] == ["original", "again", "plain", "level", "seed 1"]
    # Places are those of the user's files, also where the migrated version has them on other lines.
    for number in (0, 2, 3):
        assert document["runs"][number]["processes"][0]["losses"][0]["place"] == "lab/engine.py:10"
    told = [
        line.removeprefix("ampify verify: ") for line in done.stderr.splitlines() if line.startswith("ampify verify: ")
    ]
    assert told[0].startswith("copying the project, for 5 runs, each to 200 optimizer steps or 10 min")
    assert told[1] == "run 1 of 5: running the original"
    assert re.fullmatch(r"run 5 of 5, about \d+ s to go: running the original with seed 1", told[5])
    assert document["migration"]["changed"] == ["lab/engine.py", "main.py"]
    assert (tmp_path.parent / "v.md").read_text().startswith("## ✅ ampify verify: ")
    page = (tmp_path.parent / "v.html").read_text()
    assert "Loss of lab/engine.py:10" in page
    assert "http" not in page.replace("http-equiv", "")
    # The user's own files are as they were, and none has come to them.
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_two_ranks_under_torchrun(tmp_path: Path) -> None:
    place(tmp_path, "two_ranks.py")
    report = tmp_path.parent / "ranks.json"
    done = ampify(tmp_path, "verify", "two_ranks.py", "--nproc", "2", "--seeds", "0", "--report", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(report.read_text())
    assert [process["rank"] for run in document["runs"] for process in run["processes"]] == [0, 1] * 4
    assert len(document["comparison"]["curves"]) == 2
    first, second = (process["losses"][0]["values"] for process in document["runs"][0]["processes"])
    assert first != second


def test_a_gan_in_a_notebook_in_float16(tmp_path: Path) -> None:
    code = (CASES / "gan.py").read_text(encoding="utf-8")
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# A GAN"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": "%matplotlib inline\n!pip list\n"},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": code.splitlines(keepends=True)},
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "gan.ipynb").write_text(json.dumps(notebook))
    verification = verified(tmp_path, "gan.ipynb", dtype="float16")
    assert verification.verdict.good, verification.verdict
    assert verification.migration is not None
    # The notebook, and the script of its cells that is run in its place.
    assert verification.migration.changed == ("gan.ipynb", "gan_as_script.py")
    level = verification.run("level")
    assert level is not None
    (process,) = level.processes
    # Dynamic scaling begins at 2 to the 16.
    assert process.steps[0].scale in (2.0**16, 2.0**15)
    assert len(process.steps) == 120
    assert {row.dtype for row in process.work} == {"float16"}


def _irreproducible(code: str) -> str:
    return code.replace("\nreal = ", "\nimport time\nreal = time.time_ns() % 1000 / 1e4 + ")


def test_a_script_that_is_not_reproducible(tmp_path: Path) -> None:
    code = (CASES / "gan.py").read_text(encoding="utf-8")
    (tmp_path / "gan.py").write_text(_irreproducible(code))
    verdict = verified(tmp_path, "gan.py", steps=4).verdict
    assert verdict.judgement == "not reproducible"
    assert "step 1: the loss is" in verdict.reason


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import torch\nprint(torch.ones(1))\n", "never trains: no backward, no step"),
        ("import torch\ntorch.ones(1, requires_grad=True).sum().backward()\n", "calls backward, but no optimizer"),
        ("raise ValueError('no data')\n", "the original itself ends with ValueError: no data"),
        ("import no_such_module\n", "if another interpreter has it, name that one with --python"),
    ],
)
def test_scripts_of_which_nothing_can_be_said(tmp_path: Path, script: str, said: str) -> None:
    shutil.copy(CASES / "gan.py", tmp_path / "gan.py")
    (tmp_path / "other.py").write_text(script)
    verdict = verified(tmp_path, "other.py").verdict
    assert verdict.judgement == "cannot verify"
    assert said in verdict.reason


def test_old_and_new_checkpoints_are_resumed_from(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "checkpoint_resume" / "before" / "main.py", tmp_path / "main.py")
    verification = verified(
        tmp_path, "main.py", "--epochs", "2", resume="--resume {checkpoint} --epochs 4", steps=0, seeds=0
    )
    assert verification.verdict.good, verification.verdict
    assert any("resumed at O0, every bit is the original's" in said for said in verification.checkpoints)
    assert any(said.startswith("new checkpoint") for said in verification.checkpoints)


def test_writing_depends_on_the_verdict(tmp_path: Path) -> None:
    place(tmp_path, "gan.py")
    noisy = _irreproducible((tmp_path / "gan.py").read_text(encoding="utf-8"))
    (tmp_path / "noisy.py").write_text(noisy)
    sound = ampify(tmp_path, "gan.py", "--write", "--verify", "python gan.py")
    assert sound.returncode == 0, sound.stderr
    assert "amp.scale_loss" in (tmp_path / "gan.py").read_text()
    # What such a script does says nothing about its migration.
    refused = ampify(tmp_path, "noisy.py", "--write", "--verify", "AMPIFY_DTYPE=float16 python noisy.py")
    assert refused.returncode == 1, refused.stderr
    assert "nothing was written" in refused.stderr
    assert (tmp_path / "noisy.py").read_text() == noisy
