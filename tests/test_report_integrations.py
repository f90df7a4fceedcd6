"""The GitHub Action and the pre-commit hooks, by running what they run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.reported import MIXED, ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the action runs in bash")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the mixed files, and `ampify` on the path as an installation would put it there."""
    programs = tmp_path / "programs"
    programs.mkdir()
    script = f'#!/bin/sh\nexec "{sys.executable}" -m ampify "$@"\n'
    (programs / "ampify").write_text(script)
    (programs / "ampify").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "runtime")]))
    work = tmp_path / "work"
    work.mkdir()
    for name, content in MIXED.items():
        (work / name).write_text(content, encoding="utf-8")
    commit(work)
    return work


def commit(folder: Path) -> None:
    for arguments in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True, stdin=subprocess.DEVNULL)


# The action


def step(name: str) -> dict[str, Any]:
    (found,) = (step for step in ACTION["runs"]["steps"] if step.get("name") == name)
    assert found["shell"] == "bash"
    return dict(found)


def run_step(name: str, folder: Path, **inputs: str) -> tuple[subprocess.CompletedProcess[str], Mapping[str, str], str]:
    """One step as GitHub runs it: the process, its outputs and the job's summary."""
    known = {key: str(value.get("default", "")) for key, value in ACTION["inputs"].items()}
    assert set(inputs) <= set(known)
    values = {**known, **inputs}
    variables = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], value)
        for key, value in step(name).get("env", {}).items()
    }
    assert not any("${{" in value for value in variables.values())
    files = {name: folder.parent / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for path in files.values():
        path.write_text("")
    environment = {**os.environ, **variables, **{name: str(path) for name, path in files.items()}}
    environment |= {"RUNNER_TEMP": str(folder.parent / "temporary"), "GITHUB_ACTION_PATH": str(ROOT)}
    script = folder.parent / "step.sh"
    script.write_text(step(name)["run"])
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    return done, outputs, files["GITHUB_STEP_SUMMARY"].read_text()


def test_the_action_annotates_reports_and_fails(folder: Path) -> None:
    done, outputs, summary = run_step("Look", folder)
    assert (done.returncode, outputs["status"]) == (1, "1"), done.stderr
    assert "::error file=fit.py,line=14" in done.stdout
    assert "::notice file=train.py,line=9" in done.stdout
    assert summary.startswith("# Mixed precision, by ampify\n")
    assert Path(outputs["markdown"]).read_text(encoding="utf-8") == summary
    assert json.loads(Path(outputs["json"]).read_bytes())["summary"]["wrote"] is False
    assert json.loads(Path(outputs["sarif"]).read_bytes())["version"] == "2.1.0"
    assert Path(outputs["html"]).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (folder / "train.py").read_text() == MIXED["train.py"]


def test_the_actions_inputs(folder: Path) -> None:
    done, outputs, _ = run_step("Look", folder, fail="false")
    assert (done.returncode, outputs["status"]) == (0, "1")
    (folder / "a folder").mkdir()
    (folder / "fit.py").rename(folder / "a folder" / "fit.py")
    done, outputs, _ = run_step("Look", folder, paths="done.py\n\na folder\n", args="--ignore AMP1\n--no-cache")
    assert {line.split("file=")[1].split(",")[0] for line in done.stdout.splitlines()} == {"a folder/fit.py"}
    done, outputs, _ = run_step("Look", folder, paths="done.py")
    assert (done.returncode, outputs["status"], done.stdout) == (0, "0", "")


def test_the_action_takes_no_input_for_a_command_and_tells_failures_from_findings(folder: Path) -> None:
    mark = folder / "taken"
    done, outputs, summary = run_step("Look", folder, paths=f"$(touch {mark}); `touch {mark}`", fail="false")
    assert not mark.exists()
    assert (done.returncode, outputs["status"], summary) == (2, "2", "")
    assert "no such file or folder" in done.stderr


def test_every_output_of_the_action_is_set(folder: Path) -> None:
    _, outputs, _ = run_step("Look", folder)
    promised = {name: value["value"] for name, value in ACTION["outputs"].items()}
    assert promised == {name: f"${{{{ steps.look.outputs.{name} }}}}" for name in outputs}
    assert step("Look")["id"] == "look"


# The hooks


def hook(name: str) -> list[str]:
    """The command of a hook, as pre-commit puts it together without file names."""
    (found,) = (hook for hook in HOOKS if hook["id"] == name)
    assert found["pass_filenames"] is False
    return [*found["entry"].split(), *found["args"]]


def test_the_commands_of_the_hooks(folder: Path) -> None:
    check = subprocess.run(hook("ampify-check"), cwd=folder, capture_output=True, text=True, check=False)
    assert check.returncode == 1
    assert "would change train.py" in check.stderr
    assert (folder / "train.py").read_text() == MIXED["train.py"]
    (folder / "fit.py").unlink()
    (folder / "torn.py").unlink()
    write = subprocess.run(hook("ampify"), cwd=folder, capture_output=True, text=True, check=False)
    assert write.returncode == 0, write.stderr
    assert "amp.scale_loss" in (folder / "train.py").read_text()
    again = subprocess.run(hook("ampify"), cwd=folder, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr


# As people install them; both ask the package index.


@pytest.mark.packaging
def test_the_action_installs_ampify(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = folder.parent / "environment"
    venv.create(environment, with_pip=True)
    monkeypatch.setenv("PATH", f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PYTHONPATH")
    done, _, _ = run_step("Install ampify", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (environment / "bin" / "ampify").is_file()
    done, outputs, _ = run_step("Look", folder)
    assert (done.returncode, outputs["status"]) == (1, "1"), done.stderr


@pytest.mark.packaging
def test_pre_commit_installs_and_runs_the_hooks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pre_commit")
    source = folder.parent / "source"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", ".*_cache", "__pycache__", "*.egg-info", "dist", "build", "fixtures"
    )
    shutil.copytree(ROOT, source, ignore=ignored)
    commit(source)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(folder.parent / "hooks"))
    monkeypatch.delenv("PYTHONPATH")
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(source)]
    check = subprocess.run(
        [*command, "ampify-check", "--all-files", "--verbose"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert check.returncode == 1, check.stdout + check.stderr
    assert "fit.py:14:1: AMP204 [closure-step]" in check.stdout
    (folder / "fit.py").unlink()
    (folder / "torn.py").unlink()
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    write = subprocess.run(
        [*command, "ampify", "--all-files", "--verbose"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert write.returncode == 1, write.stdout + write.stderr
    assert "files were modified by this hook" in write.stdout
    assert "amp.scale_loss" in (folder / "train.py").read_text()
    # What a write leaves behind for `ampify undo` is nothing to be committed.
    status = subprocess.run(["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True, check=True)
    assert [line[3:] for line in status.stdout.splitlines() if line.startswith("??")] == []
