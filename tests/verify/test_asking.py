"""What `ampify verify` is asked on the command line, and how it answers what cannot be done; nothing here trains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ampify.cli import main
from ampify.verify.base import put_revision
from ampify.verify.copies import MOST_LINKS, copy_project
from ampify.verify.notebook import notebook_script
from tests.verify.planted import git

PLAIN = "print('no training here')\n"


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(PLAIN)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify", "gone.py"], "gone.py: no such script in"),
        (
            ["verify", "train.py", "--report", "v.txt"],
            "--report v.txt: the ending '.txt' names no format; use .json, .md, .html",
        ),
        (["verify", "train.py", "--report", "no/v.json"], "its folder does not exist"),
        (["verify", "train.py", "--base", "HEAD"], "--base HEAD: git has no such files"),
        (["verify", "train.py", "--base=--all"], "--base --all is no revision"),
        (["verify", "train.py", "--project", ".."], ""),
        (["verify", "train.py", "--project", "/usr/bin"], "name a folder that holds both: --project DIR"),
        (["verify", "train.py", "--opt-level", "O9"], "--opt-level must be one of"),
        (["train.py", "--verify", "python train.py"], "--verify decides whether --write writes"),
        (["-", "--write", "--verify", "python train.py"], "--verify decides whether --write writes"),
        (["train.py", "--write", "--verify", "make"], "'make' runs 'make'; give `python SCRIPT ARGS`"),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_cannot_be_done_is_said_in_one_line(arguments: list[str], said: str) -> None:
    result = ask(*arguments)
    if not said:
        # A folder above the script is a project, too.
        assert result.exit_code == 1
        return
    assert result.exit_code == 2, result.output
    line = result.stderr.splitlines()[-1]
    assert line.startswith("ampify: ")
    assert said in line


def test_where_nothing_is_to_migrate_nothing_is_run(project: Path) -> None:
    result = ask("verify", "train.py", "--format", "json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["verdict"]["judgement"] == "cannot verify"
    assert "there is nothing to migrate here" in document["verdict"]["reason"]
    assert document["runs"] == []
    assert [path.name for path in project.iterdir()] == ["train.py"]
    # Nor is there anything that a verdict could forbid to write.
    assert ask("train.py", "--write", "--verify", "python train.py").exit_code == 0


def test_refused_loops_are_listed(project: Path) -> None:
    (project / "train.py").write_text(
        "import torch\nmodel = torch.nn.Linear(1, 1)\noptimizer = torch.optim.LBFGS(model.parameters())\n"
        "def closure():\n    optimizer.zero_grad()\n    loss = model(torch.ones(1)).sum()\n    loss.backward()\n"
        "    return loss\noptimizer.step(closure)\n"
    )
    result = ask("verify", "train.py")
    assert result.exit_code == 1
    assert "nothing was migrated: every training loop is refused" in result.stdout
    assert ": AMP204 [closure-step]" in result.stdout


def test_a_revision_is_put_in_place_and_what_is_not_tracked_stays(project: Path, tmp_path: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub/old.py").write_text("old = 1\n")
    git(project, "init", "--quiet")
    git(project, "add", ".")
    git(project, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "one")
    (project / "sub/old.py").unlink()
    (project / "new.py").write_text("new = 1\n")
    git(project, "add", ".")
    (project / "train.py").write_text("changed = 1\n")
    (project / "data.csv").write_text("1,2\n")
    copy = tmp_path / "copy"
    copy_project(project, copy)
    put_revision(project, "HEAD", copy)
    found = {path.relative_to(copy).as_posix(): path.read_text() for path in copy.rglob("*") if path.is_file()}
    assert found == {"train.py": PLAIN, "sub/old.py": "old = 1\n", "data.csv": "1,2\n"}
    # A part of the repository is a project as well.
    part = tmp_path / "part"
    (project / "sub").mkdir(exist_ok=True)
    copy_project(project / "sub", part)
    put_revision(project / "sub", "HEAD", part)
    assert (part / "old.py").read_text() == "old = 1\n"


def test_links_inside_of_the_project_stay_inside_of_the_copy(project: Path, tmp_path: Path) -> None:
    (project / "lab").mkdir()
    (project / "lab/net.py").write_text("x = 1\n")
    (project / "alias").symlink_to("lab")
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / "data").symlink_to(outside)
    copy = tmp_path / "copy"
    copied = copy_project(project, copy)
    assert (copy / "alias").resolve() == (copy / "lab").resolve()
    assert (copy / "data").resolve() == outside
    assert copied.folders == (str(outside),)


def test_a_folder_of_very_many_files_is_linked_as_a_whole(project: Path, tmp_path: Path) -> None:
    images = project / "images"
    images.mkdir()
    for index in range(MOST_LINKS + 1):
        (images / f"{index}.x").touch()
    copied = copy_project(project, tmp_path / "copy")
    assert (tmp_path / "copy/images").is_symlink()
    assert (copied.links, copied.folders) == (1, (str(images),))


def test_a_notebook_becomes_a_script(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": ["x = 1\n", "if x:\n", "    !ls\n", "%time y = 2"]},
        {"cell_type": "code", "source": "%%bash\nls"},
        {"cell_type": "markdown", "source": "text"},
        {"cell_type": "code", "source": "z = 3"},
    ]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    assert notebook_script(path) == "x = 1\nif x:\n    pass  # !ls\npass  # %time y = 2\n\nz = 3\n"


@pytest.mark.parametrize("content", ["", "{}", '{"cells": [{"cell_type": "code"}]}', "[]"])
def test_what_is_no_notebook_is_said(project: Path, content: str) -> None:
    (project / "n.ipynb").write_text(content)
    result = ask("verify", "n.ipynb")
    assert result.exit_code == 2
    assert "n.ipynb is no notebook of format 4" in result.stderr
