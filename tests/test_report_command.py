"""Reports and their options on the command line, as processes and on a shell's completion."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.processes import ENVIRONMENT, command
from tests.reported import MIXED


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in a folder of its own that holds the mixed files."""
    monkeypatch.chdir(tmp_path)
    for name, text in MIXED.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def ampify(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment: Mapping[str, str] = {**ENVIRONMENT, **variables}
    return subprocess.run(command(*arguments), env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("json", "{"),
        ("github", "::error file=torn.py"),
        ("sarif", '{\n  "$schema"'),
        ("markdown", "# Mixed precision, by ampify\n"),
    ],
)
def test_a_format_goes_to_standard_output_alone(form: str, start: str) -> None:
    done = ampify(".", "--format", form)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(start)


def test_several_reports_of_one_run_beside_the_text() -> None:
    names = ("pr.md", "all.json", "scan.sarif")
    done = ampify("train.py", *(part for name in names for part in ("--report", name)))
    assert done.stdout.startswith("--- a/train.py\n")
    assert Path("pr.md").read_text(encoding="utf-8").startswith("# Mixed precision")
    assert json.loads(Path("all.json").read_bytes())["schema"] == 1
    assert json.loads(Path("scan.sarif").read_bytes())["version"] == "2.1.0"


def test_a_report_replaces_the_old_one_through_a_link_and_leaves_nothing_else(folder: Path) -> None:
    (folder / "real.json").write_text("old")
    (folder / "real.json").chmod(0o640)
    (folder / "link.json").symlink_to("real.json")
    ampify("train.py", "--report", "link.json")
    assert (folder / "link.json").is_symlink()
    assert json.loads((folder / "real.json").read_bytes())["schema"] == 1
    assert stat.S_IMODE((folder / "real.json").stat().st_mode) == 0o640
    assert {path.name for path in folder.iterdir()} == {*MIXED, "real.json", "link.json"}


def test_a_report_that_has_no_place_stops_the_run_before_it_writes(folder: Path) -> None:
    (folder / "folder.md").mkdir()
    done = ampify("train.py", "--write", "--report", "folder.md")
    assert done.returncode == 2
    assert done.stderr == "ampify: folder.md: the report cannot be written: it is a folder (name a file in it)\n"
    assert (folder / "train.py").read_text() == MIXED["train.py"]


def test_quiet_verbose_and_statistics() -> None:
    quiet = ampify(".", "--check", "--quiet")
    assert "AMP204 [closure-step]" in quiet.stderr
    assert "AMP110" not in quiet.stderr
    assert "train.py:9:5: backward rewritten AMP201 [unscaled-backward]" in ampify(".", "--verbose").stderr
    assert "  AMP201 [unscaled-backward] (1 withheld, 1 applied)" in ampify(".", "--statistics").stderr
    both = ampify(".", "-q", "-v")
    assert (both.returncode, both.stdout) == (2, "")
    assert "ask for opposite things" in both.stderr


def test_colours_where_they_are_asked_for() -> None:
    forced = ampify("train.py", "fit.py", FORCE_COLOR="1")
    assert "\033[32m+" in forced.stdout
    assert "\033[31mAMP204\033[0m" in forced.stderr
    assert "\033[" not in (plain := ampify("train.py", "fit.py")).stdout + plain.stderr
    assert "\033[" not in ampify("train.py", FORCE_COLOR="1", NO_COLOR="1").stdout


# Completion


def completions(*words: str) -> list[tuple[str, str]]:
    """What bash is offered for the last of `words`: kind and value."""
    done = ampify(_AMPIFY_COMPLETE="bash_complete", COMP_WORDS=" ".join(["ampify", *words]), COMP_CWORD=str(len(words)))
    lines = (line.split(",", 1) for line in done.stdout.splitlines())
    return [(kind, value) for kind, value in lines]


def test_completion_offers_commands_files_options_and_choices() -> None:
    assert ("plain", "explain") in completions("ex")
    assert ("file", "tr") in completions("tr")
    assert ("plain", "--write") in completions("--wr")
    assert ("plain", "--statistics") in completions("train.py", "--st")
    assert ("file", "") in completions("train.py", "")
    assert completions("train.py", "--format", "s") == [("plain", "sarif")]
    assert completions("--format", "ma") == [("plain", "markdown")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_line_that_turns_completion_on_gives_a_script(shell: str) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("there is no bash here, which is asked for its version")
    done = ampify(_AMPIFY_COMPLETE=f"{shell}_source")
    assert done.returncode == 0, done.stderr
    assert f"_AMPIFY_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("words", "offered"),
    [("ampify expl", ["explain"]), ("ampify --stat", ["--statistics"]), ("ampify train.py --format s", ["sarif"])],
)
def test_bash_completes(folder: Path, words: str, offered: list[str]) -> None:
    # As a person sets it up, with the program on the path, and then what bash does when the tab key is pressed.
    (folder / "ampify").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ampify "$@"\n')
    (folder / "ampify").chmod(0o755)
    script = f"""
        eval "$(_AMPIFY_COMPLETE=bash_source ampify)" || exit 3
        COMP_WORDS=({words}) COMP_CWORD={len(words.split()) - 1}
        function=$(complete -p ampify | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        "$function" ampify
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {**ENVIRONMENT, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "--noprofile", "--norc", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == offered, done.stderr
