"""What the watcher keeps from harm, what it notes, and what the copies hold: on real files and processes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ampify.verify.command import Command, UnclearCommand, launched, parse_command
from ampify.verify.copies import LARGEST_COPIED, MOST_COPIED, copy_project
from ampify.verify.identity import first_difference
from ampify.verify.running import Plan, Run, Workplace, run_watched

SCRIPT = """\
import sys
from pathlib import Path
import torch

Path("data/table.bin").open("r+b").write(b"changed")
Path("out").mkdir(exist_ok=True)
Path("out/log.txt").write_text("log")
Path(sys.argv[1]).write_text("elsewhere")
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.5)
for step in range(9):
    optimizer.zero_grad()
    (weight ** 2).sum().backward()
    optimizer.step()
print("weight", weight.tolist())
torch.save(weight, "data/weights.pt")
"""


BAD_MODULE = """\
import torch
from torch import nn

class Ratio(nn.Module):
    def forward(self, x):
        return x / (0.0 if step == 2 else 1.0)

step = 0
model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(Ratio(), nn.Linear(4, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
GRAD_SCALER = """\
import random
import numpy
import torch
from torch import nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
for step in range(30):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(torch.randn(4, 8)).float().pow(2).mean()
    scaler.scale(loss).backward()
    if step > 25:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    else:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
print("drawn", random.random(), numpy.random.rand(), numpy.random.default_rng().random(), torch.rand(1).item())
"""


def run_here(tmp_path: Path, script: str, *arguments: str, timeout: float = 120.0, **watching: int) -> Run:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    (project / "train.py").write_text(script)
    place = Workplace(tmp_path / "work", project)
    number = len(list((tmp_path / "work").glob("runs/*")))
    shutil.rmtree(place.original, ignore_errors=True)
    copy_project(project, place.original)
    plan = replace(Plan(f"run {number}", place.original, digest=True), **watching)  # type: ignore[arg-type]
    return run_watched(plan, Command("train.py", arguments), place, Path(), "", timeout)


def test_the_users_files_are_only_read(tmp_path: Path) -> None:
    data = tmp_path / "project" / "data"
    data.mkdir(parents=True)
    (data / "table.bin").write_bytes(b"0" * (LARGEST_COPIED + 1))
    (data / "weights.pt").write_bytes(b"1" * (LARGEST_COPIED + 1))
    elsewhere = tmp_path / "elsewhere.txt"
    run = run_here(tmp_path, SCRIPT, str(elsewhere), steps=0)
    assert run.status == 0, run.errors
    assert (data / "table.bin").read_bytes() == b"0" * (LARGEST_COPIED + 1)
    assert (data / "weights.pt").read_bytes() == b"1" * (LARGEST_COPIED + 1)
    assert (run.tree / "data/table.bin").read_bytes()[:8] == b"changed0"
    assert not (tmp_path / "project/out").exists()
    assert (run.tree / "out/log.txt").read_text() == "log"
    assert run.records.outside == (str(elsewhere),)
    (process,) = run.processes
    # The loss is 3 w², its gradient 2 w in each place, so that a step at 0.5 ends at 0: known without running it.
    assert [loss.value for loss in process.losses] == [3.0] + [0.0] * 8
    assert process.steps[0].norm == pytest.approx(12**0.5)
    assert process.steps[0].rates == (0.5,)
    assert process.steps[0].place == "train.py:14"
    assert [save.path for save in process.saves] == [str(tmp_path / "work/tree/data/weights.pt")]


def test_a_run_ends_after_its_steps(tmp_path: Path) -> None:
    (tmp_path / "project" / "data").mkdir(parents=True)
    (tmp_path / "project/data/table.bin").write_bytes(b"x" * 8)
    run = run_here(tmp_path, SCRIPT, str(tmp_path / "e.txt"), steps=4)
    assert (run.status, run.steps) == (0, 4)
    assert "weight" not in run.output


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    run = run_here(tmp_path, "import time\ntime.sleep(1000)\n", timeout=3.0)
    assert run.timed_out
    assert not run.failed
    assert run.seconds < 60


def test_the_first_module_whose_output_is_not_finite_is_named(tmp_path: Path) -> None:
    (process,) = run_here(tmp_path, BAD_MODULE, find=True).processes
    first = process.nonfinite[0]
    assert (first.where, first.name, first.step) == ("output", "Sequential.1.0", 2)


def test_grad_scaler_is_followed_seeds_repeat_and_shift_and_amp_can_be_switched_off(tmp_path: Path) -> None:
    once, again = run_here(tmp_path, GRAD_SCALER, sample=3), run_here(tmp_path, GRAD_SCALER)
    _assert_followed(once)
    shifted, plain = run_here(tmp_path, GRAD_SCALER, shift=1000), run_here(tmp_path, GRAD_SCALER, plain=True)
    assert once.output == again.output
    assert first_difference(once, again) is None
    # The script's own seed is shifted, too: each generator draws something else.
    assert all(a != b for a, b in zip(once.output.split()[1:], shifted.output.split()[1:], strict=True))
    assert {step.scale for step in plain.processes[0].steps} == {1.0}
    assert not any(step.skipped for step in plain.processes[0].steps)
    assert plain.processes[0].faults == ()


def _assert_followed(run: Run) -> None:
    assert run.status == 0, run.errors
    (process,) = run.processes
    # Losses are recorded as they are, whatever they are multiplied by.
    assert all(0 < loss.value < 100 for loss in process.losses)
    # A scale of 2 to the 40 overflows float16 until it has been halved often enough.
    assert process.steps[0].skipped
    assert not process.steps[25].skipped
    assert process.steps[25].scale < 2.0**40
    (fault,) = process.faults
    assert (fault.kind, fault.place) == ("clip-before-unscale", "train.py:16")
    assert {row.dtype for row in process.work} == {"float16"}
    assert {row.module for row in process.work} == {"Sequential.0", "Sequential.2"}


def test_large_sets_of_files_are_linked(tmp_path: Path) -> None:
    project = tmp_path / "project"
    images = project / "images"
    images.mkdir(parents=True)
    for index in range(MOST_COPIED + 1):
        (images / f"{index}.png").write_bytes(b"png")
    (images / "labels.json").write_text("{}")
    (project / "small.png").write_bytes(b"png")
    (project / ".git").mkdir()
    copied = copy_project(project, tmp_path / "copy")
    assert (copied.files, copied.links, copied.folders) == (2, MOST_COPIED + 1, ())
    assert (tmp_path / "copy/images/3.png").is_symlink()
    assert not (tmp_path / "copy/images/labels.json").is_symlink()
    assert not (tmp_path / "copy/.git").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python train.py --lr 1", Command("train.py", ("--lr", "1"))),
        ("A=1 python3.11 -u -m pkg.train x", Command("pkg.train", ("x",), (), (("A", "1"),), True)),
        ("./train.py 'a b'", Command("./train.py", ("a b",))),
        (
            "torchrun --standalone --nproc-per-node 2 train.py -x",
            Command("train.py", ("-x",), ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")),
        ),
    ],
)
def test_commands_are_read(text: str, expected: Command) -> None:
    assert parse_command(text) == expected


@pytest.mark.parametrize("text", ["", "python", "python -c 1", "make train", "python 'x", "torchrun --standalone"])
def test_commands_that_name_no_script_are_refused(text: str) -> None:
    with pytest.raises(UnclearCommand, match=r"python SCRIPT|torchrun OPTIONS|quote"):
        parse_command(text)


def test_processes_are_started_by_torchrun() -> None:
    command = launched(Command("train.py", ("--x",)), 2)
    words = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py", "--x")
    assert command.interpreter_arguments == words
    assert launched(Command("train.py"), 1) == Command("train.py")
