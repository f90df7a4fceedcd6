"""What --write does where something stands in its way: locked files, several names, changes that no commit holds."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ampify.cli import main
from ampify.write import uncommitted

TRAIN = """\
import torch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
# One training loop in two files.
STEPS = """\
def advance(loss, optimizer):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CALLER = """\
import torch
from steps import advance

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    advance(model(torch.ones(8, 4)).pow(2).mean(), optimizer)
"""
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ampify(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "-j1"] if arguments[0] != "undo" else [*arguments])


def put(**texts: str) -> None:
    for name, text in texts.items():
        Path(f"{name}.py").write_text(text, encoding="utf-8")


def test_a_locked_file_is_left_and_the_others_are_written() -> None:
    put(first=TRAIN, locked=TRAIN, third=TRAIN)
    Path("locked.py").chmod(0o444)
    result = ampify("--write", ".")
    assert result.exit_code == 1
    assert "locked.py:1:1: AMP007 [unwritable-file] this file is read-only" in result.stderr
    assert Path("locked.py").read_text() == TRAIN
    assert all("amp.scale_loss" in Path(name).read_text() for name in ("first.py", "third.py"))
    assert ampify("undo").exit_code == 0
    assert {path.read_text() for path in Path().glob("*.py")} == {TRAIN}


def test_a_dry_run_shows_what_a_locked_file_would_become() -> None:
    put(locked=TRAIN)
    Path("locked.py").chmod(0o444)
    result = ampify(".")
    assert (result.exit_code, "amp.scale_loss" in result.stdout) == (0, True)
    assert "AMP007" not in result.stderr


@pytest.mark.parametrize("locked", ["steps.py", "train.py"])
def test_a_loop_is_left_whole_if_one_of_its_files_is_locked(locked: str) -> None:
    put(steps=STEPS, train=CALLER, other=TRAIN)
    assert ampify("--check", "steps.py", "train.py").stderr.count("would change") >= 2
    Path(locked).chmod(0o444)
    result = ampify("--write", ".")
    assert f"{locked}:1:1: AMP007" in result.stderr
    assert (Path("steps.py").read_text(), Path("train.py").read_text()) == (STEPS, CALLER)
    assert "amp.scale_loss" in Path("other.py").read_text()


def test_a_locked_requirements_file_is_told_of_and_the_script_is_written() -> None:
    put(train=TRAIN)
    requirements = Path("requirements.txt")
    requirements.write_text("torch\n")
    requirements.chmod(0o444)
    result = ampify("--write", ".")
    assert "amp.scale_loss" in Path("train.py").read_text()
    assert requirements.read_text() == "torch\n"
    assert "requirements.txt" in result.stderr
    assert "by hand" in result.stderr


def test_a_locked_file_whose_syntax_could_be_repaired_is_left() -> None:
    old = TRAIN.replace("torch.ones(8, 4)", "torch.ones(8, 4).cuda(async=True)")
    put(locked=old, train=TRAIN)
    Path("locked.py").chmod(0o444)
    ampify("--write", ".")
    assert Path("locked.py").read_text() == old
    assert "amp.scale_loss" in Path("train.py").read_text()


def test_a_file_of_several_names_is_not_parted_from_them() -> None:
    put(train=TRAIN)
    os.link("train.py", "also.txt")
    result = ampify("--write", "train.py")
    assert "AMP007 [unwritable-file] this file has 2 names (hard links)" in result.stderr
    assert (Path("train.py").read_text(), Path("also.txt").read_text()) == (TRAIN, TRAIN)


def test_through_a_link_its_target_is_written_and_the_link_stays() -> None:
    Path("code").mkdir()
    Path("code/real.py").write_text(TRAIN)
    Path("code/real.py").chmod(0o750)
    Path("train.py").symlink_to("code/real.py")
    ampify("--write", "train.py")
    assert Path("train.py").is_symlink()
    assert "amp.scale_loss" in Path("code/real.py").read_text()
    assert Path("code/real.py").stat().st_mode & 0o777 == 0o750


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


@needs_git
def test_uncommitted_changes_of_files_that_change_are_warned_of_and_no_others() -> None:
    git("init", "-q")
    put(clean=TRAIN, dirty=TRAIN, new=TRAIN, idle="x = 1\n")
    git("add", "clean.py", "dirty.py", "idle.py")
    git("commit", "-qm", "all")
    put(dirty=f"{TRAIN}# edited\n", idle="x = 2\n")
    assert "warning" not in ampify(".").stderr
    result = ampify("--write", ".")
    warned = [line for line in result.stderr.splitlines() if "warning" in line]
    expected = "ampify: warning: {} has changes that are not committed (--allow-dirty: no warning)"
    assert warned == [expected.format("dirty.py"), expected.format("new.py")]
    assert result.exit_code == 0
    assert "amp.scale_loss" in Path("dirty.py").read_text()


@needs_git
def test_allow_dirty_on_the_command_line_or_preset_keeps_the_warning_away() -> None:
    git("init", "-q")
    put(train=TRAIN)
    assert "warning" not in ampify("--write", "--allow-dirty", ".").stderr
    ampify("undo")
    Path("pyproject.toml").write_text("[tool.ampify]\nallow-dirty = true\n")
    assert "warning" not in ampify("--write", ".").stderr


@needs_git
def test_git_is_asked_in_each_repository_and_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "none"):
        Path(name, "sub folder").mkdir(parents=True)
        Path(name, "sub folder/ä.py").write_text("x")
    git("init", "-q", "one")
    git("init", "-q", "two")
    paths = [Path(name, "sub folder/ä.py") for name in ("one", "two", "none")]
    assert uncommitted(paths) == (paths[0], paths[1])
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert uncommitted(paths) == ()


@needs_git
def test_no_program_that_a_strange_repository_names_is_started(tmp_path: Path) -> None:
    git("init", "-q")
    put(train=TRAIN)
    spy = tmp_path / "spy.sh"
    spy.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    spy.chmod(0o755)
    git("config", "core.fsmonitor", str(spy))
    assert uncommitted([Path("train.py")]) == (Path("train.py"),)
    assert not (tmp_path / "was-run").exists()
