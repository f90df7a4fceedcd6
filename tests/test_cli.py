"""The command line, end to end on real files: what is printed where, what is written, and the exit status."""

# ruff: noqa: W293 (a diff has a space for an empty line)

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ampify
from ampify.cli import main
from ampify.rules import all_rules
from tests.processes import ENVIRONMENT, command

TRAIN = """\
import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
MIGRATED = """\
import torch
from torch import nn
from ampify_runtime import amp

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 4)).pow(2).mean()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""
DIFF = """\
--- a/train.py
+++ b/train.py
@@ -1,10 +1,13 @@
 import torch
 from torch import nn
+from ampify_runtime import amp
 
 model = nn.Linear(4, 2)
 optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
+model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
 for step in range(3):
     optimizer.zero_grad()
     loss = model(torch.ones(8, 4)).pow(2).mean()
-    loss.backward()
+    with amp.scale_loss(loss, optimizer) as scaled_loss:
+        scaled_loss.backward()
     optimizer.step()
"""
CLOSURE = TRAIN.replace("optimizer.step()", "optimizer.step(lambda: loss)")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin, prog_name="ampify")


def tree() -> dict[str, bytes]:
    return {p.as_posix(): p.read_bytes() for p in sorted(Path().rglob("*")) if p.is_file() and ".ampify" not in p.parts}


# Runs a.py with the current folder alone for its own: no other copy of the runtime can be found.
_RUN_HERE = "import runpy, sys; sys.path.insert(0, ''); runpy.run_path('a.py')"

# What a run does


def test_a_dry_run_shows_the_diff_and_writes_nothing() -> None:
    write({"train.py": TRAIN})
    before = tree()
    result = run("train.py")
    assert result.stdout == DIFF
    assert (
        "1 file would change; 1 training loop would be migrated.\nNothing was written; --write writes it.\n"
        in result.stderr
    )
    assert "AMP110 [runtime-requirement-missing]" in result.stderr
    assert (result.exit_code, tree()) == (0, before)


def test_write_makes_the_change_undo_takes_it_back_and_a_second_run_has_nothing_to_do() -> None:
    write({"train.py": TRAIN, "requirements.txt": "torch>=2.4\n", "other.py": "x = 1\n"})
    before = tree()
    result = run("--write", ".")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr == (
        "changed train.py\nchanged requirements.txt\n\n2 files changed; 1 training loop migrated.\n"
    )
    changed = {**before, "train.py": MIGRATED.encode(), "requirements.txt": b"torch>=2.4\nampify>=0.1\n"}
    assert tree() == changed
    again = run("--write", ".")
    assert (again.exit_code, again.stdout) == (0, "")
    assert again.stderr == "Nothing to do: 1 training loop right already.\n"
    assert tree() == changed
    undone = run("undo")
    assert undone.exit_code == 0
    assert undone.stderr == "put back train.py\nput back requirements.txt\n"
    assert tree() == before
    assert run("undo").exit_code == 2


def test_check_shows_no_diff_and_says_it_in_the_exit_status() -> None:
    write({"train.py": TRAIN, "requirements.txt": "ampify\ntorch\n"})
    result = run("--check", "train.py")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "would change train.py\n\n1 file would change; 1 training loop would be migrated.\n"
    assert run("--check", "--exit-zero", "train.py").exit_code == 0
    write({"train.py": MIGRATED})
    assert run("--check", "train.py").exit_code == 0


def test_a_refused_loop_is_said_with_its_reason_and_nothing_is_written() -> None:
    write({"train.py": CLOSURE})
    before = tree()
    result = run("--write", "train.py")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Not migrated" in result.stderr
    assert "train.py:10:" in result.stderr
    assert "AMP204" in result.stderr
    assert "hint: " in result.stderr
    assert result.stderr.endswith("Nothing changed: 1 training loop not migrated.\n")
    assert tree() == before
    assert run("--exit-zero", "train.py").exit_code == 0


def test_nothing_to_do_says_why() -> None:
    write({"a.py": "x = 1\n", "b.py": ""})
    result = run(".")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "Nothing to do: no training loop found in 2 files.\n"


def test_the_command_may_be_named_and_the_order_of_files_is_fixed() -> None:
    write({"b.py": TRAIN, "a/train.py": TRAIN})
    result = run("migrate", ".")
    assert result.stdout == DIFF.replace("/train.py", "/a/train.py") + DIFF.replace("/train.py", "/b.py")
    assert run(".", "-j", "1").stdout == run(".", "--jobs", "2").stdout == result.stdout


def test_many_files_are_rewritten_alike_in_one_process_and_in_several() -> None:
    write({f"train_{number:02}.py": TRAIN for number in range(16)})
    alone, together = run(".", "-j", "1", "--format", "json"), run(".", "-j", "2", "--format", "json")
    assert alone.stdout == together.stdout
    assert json.loads(alone.stdout)["summary"]["files"]["changed"] == 16


def test_an_unreadable_file_is_named_with_the_reason() -> None:
    write({"old.py": TRAIN + "print 'done'\n", "train.py": TRAIN})
    result = run(".")
    assert result.exit_code == 1
    assert result.stderr.startswith("Failed (1)\nold.py:11:1: AMP005 [python-2-syntax] ")
    assert result.stdout == DIFF
    assert run(".", "--ignore", "AMP005").exit_code == 0


def test_a_file_of_other_bytes_is_named_with_the_reason() -> None:
    Path("train.py").write_bytes(TRAIN.encode() + b"# \xff\n")
    result = run("train.py")
    assert result.exit_code == 1
    assert "train.py:" in result.stderr
    assert "AMP002 [undecodable-file]" in result.stderr


def test_a_broken_file_that_asks_to_be_skipped_is_skipped() -> None:
    write({"old.py": "# ampify: skip-file\nloss.backward()\nprint 'done'\n"})
    Path("older.py").write_bytes(b"# ampify: skip-file\nloss.backward()  # \xff\n")
    result = run(".", "--format", "json")
    assert {(file["path"], file["status"]) for file in json.loads(result.stdout)["files"]} == {
        ("old.py", "skipped"),
        ("older.py", "skipped"),
    }
    assert result.exit_code == 0


@pytest.fixture
def no_superuser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that this process works in without the superuser's right to read everything."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        monkeypatch.chdir(name)
        yield Path(name)
        os.seteuid(os.getuid())
        for path in Path(name).iterdir():
            path.chmod(0o755)
        os.chdir("/")


def test_what_may_not_be_read_is_named(no_superuser: Path) -> None:
    write({"train.py": TRAIN, "closed/other.py": "", "open.py": TRAIN})
    Path("train.py").chmod(0)
    Path("closed").chmod(0)
    if os.getuid() == 0:
        os.seteuid(65534)
    result = run(".")
    assert result.exit_code == 1
    assert "train.py:1:1: AMP001 [unreadable-file] may not be read" in result.stderr
    assert "closed:1:1: AMP001 [unreadable-file] this folder cannot be listed" in result.stderr
    assert "+++ b/open.py\n" in result.stdout


def test_a_file_that_is_a_dangling_link_is_missing() -> None:
    Path("train.py").symlink_to("nowhere.py")
    result = run("train.py")
    assert (result.exit_code, result.stderr) == (2, "ampify: no such file or folder: train.py\n")


def test_rules_can_be_left_out_and_comments_silence() -> None:
    write({"train.py": TRAIN.replace("backward()", "backward()  # ampify: ignore[AMP201]")})
    result = run("train.py")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (
        "train.py:9: this training loop is left as it is, because what forbids it is silenced (AMP201)" in result.stderr
    )
    write({"train.py": f"# ampify: skip-file\n{TRAIN}"})
    said = "train.py:10: this training loop is left as it is, because its file asks to be skipped"
    assert said in run("train.py").stderr
    write({"train.py": TRAIN})
    assert run("train.py", "--ignore", "AMP2,AMP110").stdout == ""
    assert run("train.py", "--select", "AMP1", "--select", "AMP2").stdout == DIFF


def test_presets_come_from_the_nearest_pyproject_and_flags_win() -> None:
    write({"repo/train.py": TRAIN, "repo/pyproject.toml": '[tool.ampify]\nopt-level = "O0"\n'})
    assert 'opt_level="O0"' in run("repo/train.py").stdout
    assert 'opt_level="O4"' in run("repo/train.py", "--opt-level", "O4").stdout
    write({"mine.toml": '[tool.ampify]\nformat = "json"\n'})
    assert json.loads(run("repo", "--config", "mine.toml").stdout)["schema"] == 1


def test_files_outside_of_the_current_folder() -> None:
    write({"elsewhere/train.py": TRAIN, "here/empty": ""})
    os.chdir("here")
    result = run("../elsewhere/train.py", "--write")
    assert result.exit_code == 0, result.output
    assert Path("../elsewhere/train.py").read_text() == MIGRATED
    assert run("undo").exit_code == 2
    undone = run("undo", "../elsewhere")
    assert undone.stderr == f"put back {Path('../elsewhere/train.py').resolve()}\n"
    assert Path("../elsewhere/train.py").read_text() == TRAIN


def test_undo_of_one_file_or_of_a_misspelt_folder_takes_nothing_back() -> None:
    write({"train.py": TRAIN})
    assert run("--write", "train.py").exit_code == 0
    migrated = Path("train.py").read_bytes()
    for name in ("train.py", "no_such_folder"):
        assert run("undo", name).exit_code == 2
        assert Path("train.py").read_bytes() == migrated
    assert run("undo").exit_code == 0


def test_undo_puts_nothing_back_where_a_file_was_edited_since_unless_told_what_to_do_with_it() -> None:
    write({"train.py": TRAIN, "sub/finetune.py": TRAIN})
    assert run(".", "--write").exit_code == 0
    write({"train.py": "# mine\n"})
    edited = tree()
    os.chdir("sub")
    there = Path("../train.py").resolve()
    refused = run("undo")
    assert refused.exit_code == 1
    assert refused.stderr == (
        f"edited since: {there}\n"
        "ampify: nothing was put back; --keep-edited puts back the others, --force all: edits are lost\n"
    )
    os.chdir("..")
    assert tree() == edited
    kept = run("undo", "--keep-edited")
    assert kept.exit_code == 1
    assert kept.stderr == "put back sub/finetune.py\nedited since, left alone: train.py\n"
    assert (Path("train.py").read_text(), Path("sub/finetune.py").read_text()) == ("# mine\n", TRAIN)
    assert run("undo", "--keep-edited", "--force").exit_code == 2
    forced = run("undo", "--force")
    assert (forced.exit_code, forced.stderr) == (0, "put back train.py\n")
    assert Path("train.py").read_text() == TRAIN
    assert run("undo").exit_code == 2


def test_undo_keeps_the_copy_of_the_runtime_that_an_edited_script_still_imports() -> None:
    write({"a.py": TRAIN, "b.py": TRAIN})
    assert run(".", "--write", "--vendor", "lib").exit_code == 0
    copied = {path for path in tree() if path.startswith("lib/")}
    mine = Path("a.py").read_text() + "print(loss.item())\n"
    write({"a.py": mine})
    kept = run("undo", "--keep-edited")
    assert kept.exit_code == 1
    assert kept.stderr == (
        "put back b.py\nedited since, left alone: a.py\nkept: lib/ampify_runtime, a.py refers to it\n"
    )
    assert set(tree()) == {"a.py", "b.py", *copied}
    ran = subprocess.run([sys.executable, "-I", "-c", _RUN_HERE], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    write({"a.py": TRAIN})
    assert run("undo").exit_code == 0
    assert set(tree()) == {"a.py", "b.py"}


def test_undo_removes_the_copy_of_the_runtime_that_no_edited_script_refers_to() -> None:
    write({"a.py": TRAIN, "b.py": TRAIN})
    assert run(".", "--write", "--vendor", "lib").exit_code == 0
    write({"a.py": "# mine\n"})
    undone = run("undo", "--keep-edited")
    assert undone.stderr.splitlines()[-1] == "edited since, left alone: a.py"
    assert tree() == {"a.py": b"# mine\n", "b.py": TRAIN.encode()}


def test_a_folder_that_cannot_hold_the_journal_is_named_and_nothing_is_half_done() -> None:
    write({"a.py": TRAIN, "train.py": TRAIN})
    Path(".ampify").write_text("in the way\n")
    before = tree()
    result = run(".", "--write")
    assert result.exit_code == 2
    assert result.stderr.startswith("ampify: ")
    assert ".ampify: cannot be written" in result.stderr
    assert result.stderr.count("\n") == 1
    assert tree() == before


# What surrounds the scripts


def test_the_diff_shows_the_requirement_that_is_added() -> None:
    write({"repo/src/train.py": TRAIN, "repo/requirements.txt": "numpy\ntorch==1.7\n"})
    result = run("repo")
    assert result.stdout.endswith(
        "--- a/repo/requirements.txt\n+++ b/repo/requirements.txt\n@@ -1,2 +1,3 @@\n+ampify>=0.1\n numpy\n torch==1.7\n"
    )
    assert "repo/requirements.txt:2:1: AMP111 [torch-too-old] " in result.stderr
    assert result.exit_code == 0
    assert "requirements.txt" not in run("repo", "--ignore", "AMP110").stdout


def test_a_setup_script_is_extended_by_the_codemod() -> None:
    write({"train.py": TRAIN, "setup.py": "from setuptools import setup\n\nsetup(install_requires=['torch'])\n"})
    assert "+setup(install_requires=['torch', 'ampify>=0.1'])\n" in run(".").stdout


def test_a_setup_script_that_trains_is_left_to_a_person() -> None:
    write({"setup.py": TRAIN + "setup(install_requires=['torch'])\n"})
    result = run(".", "--write")
    assert result.exit_code == 0
    assert "ampify>=0.1" not in Path("setup.py").read_text()
    assert "AMP110" in result.stderr


def test_the_runtime_is_copied_once_and_the_script_runs_with_it() -> None:
    write({"train.py": TRAIN + "print(loss.item())\n", "requirements.txt": "torch\n"})
    result = run("train.py", "--vendor", "third_party")
    assert "from third_party.ampify_runtime import amp" in result.stdout
    assert "requirements.txt" not in result.stdout
    assert "would go to third_party/ampify_runtime." in result.stderr
    assert not Path("third_party").exists()
    result = run("train.py", "--vendor", "third_party", "--write")
    assert result.exit_code == 0, result.output
    assert "went to third_party/ampify_runtime." in result.stderr
    # Compiled code is left beside the copy, unless that is forbidden here.
    unwanted = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    environment = {key: value for key, value in os.environ.items() if key not in unwanted} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "train.py"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 1
    again = run(".", "--vendor", "third_party", "--write")
    assert again.stderr == "Nothing to do: 1 training loop right already.\n"
    assert list(Path("third_party").rglob("*.pyc"))
    files = sum(path.suffix != ".pyc" for path in Path("third_party").rglob("*") if path.is_file())
    undone = run("undo")
    assert (undone.exit_code, undone.stderr) == (
        0,
        f"put back train.py\nremoved {files} files in third_party/ampify_runtime\n",
    )
    assert not Path("third_party").exists()


def test_an_edited_copy_of_the_runtime_stops_the_run() -> None:
    write({"train.py": TRAIN, "lib/ampify_runtime/__init__.py": "mine = True\n"})
    before = tree()
    result = run("train.py", "--vendor", "lib", "--write")
    assert result.exit_code == 2
    assert "lib/ampify_runtime/__init__.py differs from the runtime" in result.stderr
    assert tree() == before


def test_a_script_that_would_not_find_the_copy_is_told_so() -> None:
    guarded = TRAIN + 'if __name__ == "__main__":\n    print(loss)\n'
    write({"scripts/train.py": guarded, "package/__init__.py": "", "package/train.py": guarded})
    result = run(".", "--vendor", "lib")
    assert "scripts/train.py:1:1: AMP113 [runtime-copy-out-of-reach]" in result.stderr
    assert "package/train.py:1:1: AMP113" not in result.stderr


# Standard input


def test_standard_input_gives_a_diff_or_the_code() -> None:
    assert run("-", stdin=TRAIN).stdout == DIFF.replace("a/train.py", "a/<stdin>").replace("b/train.py", "b/<stdin>")
    result = run("-", "--write", stdin=TRAIN)
    assert (result.exit_code, result.stdout) == (0, MIGRATED)
    assert result.stderr == "changed <stdin>\n\n1 file changed; 1 training loop migrated.\n"
    assert run("-", "--write", stdin=MIGRATED).stdout == MIGRATED
    checked = run("-", "--check", stdin=TRAIN)
    assert (checked.exit_code, checked.stdout) == (1, "")
    assert json.loads(run("-", "--format", "json", stdin=TRAIN).stdout)["files"][0]["path"] == "<stdin>"


def test_standard_input_that_cannot_be_read_comes_out_as_it_was() -> None:
    broken = TRAIN.encode() + b"# \xff\n"
    result = run("-", "--write", stdin=broken)
    assert (result.exit_code, result.stdout_bytes) == (1, broken)
    assert "<stdin>:" in result.stderr


# Reports


def test_json_on_standard_output_and_in_a_file() -> None:
    write({"train.py": TRAIN, "requirements.txt": "ampify\ntorch\n"})
    result = run("train.py", "--format", "json", "--report", "report.json", "--write")
    assert result.stderr == ""
    assert result.stdout == Path("report.json").read_text(encoding="utf-8")
    report = json.loads(result.stdout)
    assert report["files"] == [{"path": "train.py", "status": "changed", "reason": ""}]
    assert [(loop["line"], loop["state"], loop["models"]) for loop in report["loops"]] == [(9, "migrated", ["model"])]
    assert {(site["kind"], site["line"], site["state"]) for site in report["sites"]} >= {
        ("backward", 9, "rewritten"),
        ("step", 10, "right"),
        ("zero_grad", 7, "right"),
    }
    assert report["summary"]["wrote"] is True


def test_a_report_beside_the_diff() -> None:
    write({"train.py": TRAIN})
    result = run("train.py", "--report", "report.json")
    assert result.stdout == DIFF
    assert json.loads(Path("report.json").read_text(encoding="utf-8"))["summary"]["wrote"] is False


def test_a_report_that_cannot_be_written() -> None:
    write({"train.py": TRAIN})
    result = run("train.py", "--report", "no/such/report.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "ampify: no/such/report.json: the report cannot be written: its folder does not exist (make the folder first)\n"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has file names that are no text")
def test_a_file_name_that_is_no_text() -> None:
    Path(os.fsdecode(b"tr\xe9in.py")).write_text(TRAIN)
    result = run(".", "--format", "json")
    assert json.loads(result.stdout_bytes)["files"][0]["path"] == "tr\udce9in.py"
    assert b"--- a/tr\xe9in.py\n" in run(".").stdout_bytes


def test_without_a_path_it_is_the_current_folder() -> None:
    write({"train.py": TRAIN})
    assert (run("--quiet").stdout, run("migrate").stdout) == (DIFF, DIFF)
    assert run("--check").exit_code == 1


def test_the_type_alone_asks_for_the_level_that_casts_to_it() -> None:
    write({"train.py": TRAIN})
    assert 'opt_level="O4"' in run("--dtype", "bfloat16", "train.py").stdout


# Wrong usage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.py"], "no such file or folder: missing.py"),
        (["train.py", "missing.py", "gone"], "no such file or folder: missing.py, gone"),
        (["--dtype", "float32", "."], "--dtype must be one of float16, bfloat16, not 'float32'"),
        (["--write", "--check", "."], "--check writes nothing; give --write or --check, not both"),
        (["-", "train.py"], "standard input (-) goes alone; name files and folders in another run"),
        (["-", "--vendor", "lib"], "--vendor needs a folder to copy to; it does not go with standard input (-)"),
        (["-", "--write", "--format", "json"], "with - and --write standard output takes the code"),
        (["--select", "AMP7", "."], "--select AMP7: no rule has a code that starts so"),
        (["--config", "none.toml", "."], "none.toml cannot be read: No such file or directory"),
        (["explain", "AMP999"], "no rule is called 'AMP999'; those that start with AMP9 are AMP901, AMP902, "),
        (["explain", "unscaled-backwards"], "no rule is called 'unscaled-backwards'; did you mean AMP201, unscaled-b"),
        (["explain", "?"], "no rule is called '?'; codes look like AMP201, and `ampify rules` lists them"),
        (["undo"], "no write of ampify is on record here"),
        (["undo", "train.py"], "this is no folder (undo takes back the whole last write; name its folder, or none)"),
    ],
)
def test_wrong_usage_gets_one_line_and_exit_status_2(arguments: list[str], said: str) -> None:
    write({"train.py": TRAIN})
    result = run(*arguments, stdin="")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("ampify: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verfy", "train.py"], "No command, file or folder is called 'verfy'; did you mean `ampify verify`?"),
        (["Undo"], "No command, file or folder is called 'Undo'; did you mean `ampify undo`?"),
        (["check", "train.py"], "called 'check'; `ampify --check PATH` exits with 1 if anything would change"),
        (["--fix", "train.py"], "No such option '--fix': `--write` writes the changes."),
        (["train.py", "--diff"], "No such option '--diff': the diff is shown anyway, and nothing is written without"),
        (["verify", "train.py", "--epochs", "2"], "What is meant for the script goes after `--`: SCRIPT -- ARGS."),
    ],
)
def test_what_somebody_meant_is_named(arguments: list[str], said: str) -> None:
    write({"train.py": TRAIN})
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_folder_that_is_called_almost_like_a_command_is_a_folder() -> None:
    write({"verfy/train.py": TRAIN, "check/train.py": TRAIN})
    for folder in ("verfy", "check"):
        assert f"+++ b/{folder}/train.py" in run(folder).stdout
    # A name that is like none says no more than that there is none.
    assert "did you mean" not in run("experiments").stderr


def test_help_has_a_short_name() -> None:
    for named in ([], ["verify"], ["explain"]):
        assert run(*named, "-h").stdout == run(*named, "--help").stdout != ""


def test_a_wrong_option_and_nothing_at_all_show_the_usage() -> None:
    result = run("--wrte", ".")
    assert result.exit_code == 2
    assert "Usage: ampify" in result.stderr
    assert "Usage: ampify [OPTIONS] [PATH...]" in run().output


def test_a_file_called_like_a_command_is_reached_by_its_path() -> None:
    write({"rules": "x = 1\n"})
    assert "AMP009" in run("rules").stdout
    assert run("./rules").stderr == "Nothing to do: no training loop found in 1 file.\n"


# The other commands


def test_help_shows_the_options_and_the_commands() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for word in ("[OPTIONS] [PATH...]", "COMMAND [ARGS]...", "--write", "--vendor DIR", "--version", "explain", "undo"):
        assert word in result.stdout, word


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_explain_works_for_every_rule_by_code_and_by_name(rule: object) -> None:
    code, name = rule.code, rule.name  # type: ignore[attr-defined]
    by_code, by_name = run("explain", code.lower()), run("explain", name)
    assert by_code.exit_code == 0
    assert by_code.stdout == by_name.stdout
    assert by_code.stdout.startswith(f"{code} {name}\n\n")
    assert "\nWhy it matters\n--------------\n" in by_code.stdout


def test_rules_lists_all_of_them() -> None:
    lines = run("rules").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[rule.code, rule.name] for rule in all_rules()]
    listed = json.loads(run("rules", "--format", "json").stdout)
    assert [(item["code"], item["name"]) for item in listed] == [(rule.code, rule.name) for rule in all_rules()]
    assert all(item["summary"].endswith(".") for item in listed)


# Processes of their own


def process(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(*arguments), env=ENVIRONMENT, capture_output=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_as_a_module_with_bytes_as_they_are() -> None:
    Path("train.py").write_bytes(b"\xef\xbb\xbf" + TRAIN.replace("\n", "\r\n").encode())
    done = process("train.py")
    assert done.returncode == 0, done.stderr
    Path("change.diff").write_bytes(done.stdout)
    subprocess.run(["git", "apply", "change.diff"], check=True)
    assert Path("train.py").read_bytes() == b"\xef\xbb\xbf" + MIGRATED.replace("\n", "\r\n").encode()
    assert process("--version").stdout == f"ampify, version {ampify.__version__}\n".encode()


def test_as_a_module_in_this_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["ampify", "--version"])
    with pytest.raises(SystemExit) as done:
        runpy.run_module("ampify", run_name="__main__")
    assert (done.value.code, capsys.readouterr().out) == (0, f"ampify, version {ampify.__version__}\n")
    importlib.import_module("ampify.__main__")  # which, imported, runs nothing
    assert capsys.readouterr().out == ""


def test_neither_torch_nor_libcst_is_imported_for_a_run_that_changes_nothing() -> None:
    write({"train.py": MIGRATED})
    script = (
        "import sys\nfrom ampify.cli import main\n"
        "try:\n    main(['--check', 'train.py'])\n"
        "finally:\n    print([name for name in ('torch', 'libcst', 'ampify_runtime') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_a_run_without_training_code_loads_no_stage_that_it_does_not_need() -> None:
    write({"plain.py": "x = 1\n"})
    script = (
        "import sys\nfrom ampify.cli import main\n"
        "try:\n    main(['plain.py'])\n"
        "finally:\n    print([name for name in sys.argv[1:] if name in sys.modules])\n"
    )
    needless = ["ampify.index", "ampify.rules.migration", "ampify.write", "ampify.plan.decision", "pathspec"]
    done = subprocess.run(
        [sys.executable, "-c", script, *needless], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n", done.stderr
    assert done.stderr == "Nothing to do: no training loop found in 1 file.\n"


def on_a_terminal(*arguments: str, **variables: str) -> str:
    """What a terminal shows of a run."""
    ours, theirs = pytest.importorskip("pty").openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm", **variables}
    environment.pop("NO_COLOR", None)
    environment.update(variables)
    child = subprocess.Popen(command(*arguments), env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    child.wait()
    os.close(ours)
    return shown.decode()


def test_colours_on_a_terminal_alone_and_not_against_the_users_wish() -> None:
    write({"train.py": TRAIN})
    shown = on_a_terminal("train.py")
    assert "\033[32m+from ampify_runtime import amp\033[0m" in shown
    assert "\033[33mAMP110\033[0m" in shown
    assert "\033[" not in on_a_terminal("train.py", NO_COLOR="1")
    assert "\033[" not in on_a_terminal("train.py", TERM="dumb")
    assert b"\033[" not in process("train.py").stdout


def test_a_closed_pipe_is_no_failure_worth_a_traceback() -> None:
    write({f"train_{number}.py": TRAIN for number in range(3)})
    child = subprocess.Popen(command("."), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    said = child.stderr.read()
    child.wait()
    child.stderr.close()
    assert b"Traceback" not in said


def test_an_interrupt_gets_one_line_and_exit_status_130() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_RUN], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "ampify: interrupted; no file is half written\n"


# Ctrl-C comes while ampify waits for its input.
INTERRUPTED_RUN = """
import os, signal, sys, time, types
from ampify import cli

def read():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)

sys.stdin = types.SimpleNamespace(buffer=types.SimpleNamespace(read=read))
cli.main(["-"])
"""


# Failures of ampify itself


def test_a_failure_of_ampify_gets_one_line_and_its_place_with_verbose(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("broken\nin two lines")

    write({"train.py": TRAIN})
    monkeypatch.setattr("ampify.pipeline.migrating.settle", broken)
    result = run("train.py", "--write")
    assert result.exit_code == 2
    assert result.stderr.startswith("ampify: internal failure, nothing was written: KeyError: ")
    assert result.stderr.count("\n") == 1
    assert Path("train.py").read_text() == TRAIN
    done = subprocess.run(
        [sys.executable, "-c", BROKEN_RUN, "--verbose", "train.py"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback (most recent call last):" in done.stderr
    assert "ZeroDivisionError" in done.stderr.splitlines()[-1]


BROKEN_RUN = """
import runpy
import subprocess
import sys
import tempfile
from ampify import cli, pipeline
pipeline.run = lambda *arguments, **options: 1 / 0
cli.main(sys.argv[1:])
"""


def test_explained_sites_are_printed_and_nothing_is_written(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    result = run("train.py", "--explain-sites")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "train.py:7:5 zero_grad right - train.py:9 optimizer ← train.py:5 torch.optim.SGD(...)",
        "train.py:9:5 backward rewritten AMP201 train.py:9 loss ← train.py:8 model(...) ← train.py:4 nn.Linear(...); "
        "optimizer ← train.py:10 stepped ← train.py:5 torch.optim.SGD(...)",
        "train.py:10:5 step right - train.py:9 optimizer ← train.py:5 torch.optim.SGD(...)",
    ]
    assert (folder / "train.py").read_text() == TRAIN
    (row, *_) = json.loads(run("train.py", "--format", "json").stdout)["sites"]
    hop = {
        "chain": 1,
        "object": "optimizer",
        "path": "train.py",
        "line": 5,
        "how": "torch.optim.SGD(...)",
        "lost": False,
    }
    assert row["evidence"] == [hop]


def test_explained_sites_exit_like_a_dry_run(folder: Path) -> None:
    (folder / "train.py").write_text(CLOSURE)
    assert run("train.py", "--explain-sites").exit_code == run("train.py").exit_code == 1


@pytest.mark.parametrize("other", [("--write",), ("--check",), ("--format", "json")])
def test_explained_sites_go_alone(folder: Path, other: tuple[str, ...]) -> None:
    (folder / "train.py").write_text(TRAIN)
    result = run("train.py", "--explain-sites", *other)
    assert result.exit_code == 2
    assert "--explain-sites" in result.stderr
    assert (folder / "train.py").read_text() == TRAIN


def test_explained_sites_are_coloured_on_demand_and_the_same_in_any_number_of_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "train.py").write_text(TRAIN)
    plain = run("train.py", "--explain-sites", "-j", "1").stdout
    assert plain == run("train.py", "--explain-sites", "-j", "2").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\033[" in run("train.py", "--explain-sites").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("train.py", "--explain-sites").stdout == plain
