"""`ampify bulk` on real repositories: what it makes of each, what it leaves alone, and what a second run does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import ENVIRONMENT, ROOT, command

TRAIN = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).mean().backward()
    optimizer.step()
"""
REFUSED = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(model.parameters())


def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).mean()
    loss.backward()
    return loss


optimizer.step(closure)
"""
NOTHING = "print('no training here')\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=An Author", "-c", "user.email=author@example.org")
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def repository(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "train.py").write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "as it was")
    return folder


def bulk(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("bulk", "repos.txt", "--out", "out", *arguments),
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def states(folder: Path) -> dict[str, dict[str, Any]]:
    """What became of each repository, by the name of its folder."""
    found = [json.loads(path.read_text()) for path in sorted((folder / "out").glob("*/state.json"))]
    return {Path(state["source"]).name: state for state in found}


@pytest.fixture
def repositories(tmp_path: Path) -> Path:
    repository(tmp_path / "good", TRAIN)
    repository(tmp_path / "hard", REFUSED)
    repository(tmp_path / "other", NOTHING)
    (tmp_path / "repos.txt").write_text("# three\ngood\n./hard  # a remark\nother\nmissing\n")
    return tmp_path


def test_each_repository_gets_what_it_can(repositories: Path) -> None:
    done = bulk(repositories, "-j", "2")
    assert done.returncode == 1, done.stderr
    found = states(repositories)
    assert {name: state["status"] for name, state in found.items()} == {
        "good": "migrated",
        "hard": "unchanged",
        "other": "unchanged",
        "missing": "failed",
    }
    assert found["hard"]["refusals"] == {"AMP204": ["closure-step", 1]}
    assert "does not appear to be a git repository" in found["missing"]["reason"]
    (folder,) = (repositories / "out").glob("*good*")
    for name in ("report.json", "pr.md", "out.html"):
        assert (folder / name).stat().st_size
    checkout = folder / "checkout"
    assert git(checkout, "branch", "--show-current").strip() == "ampify/mixed-precision"
    assert "amp.scale_loss" in git(checkout, "show", "HEAD:train.py")
    assert not git(checkout, "status", "--porcelain")
    summary = json.loads((repositories / "out" / "summary.json").read_text())
    assert summary["statuses"] == {"migrated": 1, "unchanged": 2, "failed": 1, "not_reached": 0}
    assert [(row["code"], row["places"], row["repositories"]) for row in summary["commonest_refusals"]] == [
        ("AMP204", 1, 1)
    ]
    # What was given is as it was.
    assert (repositories / "good" / "train.py").read_text() == TRAIN
    assert git(repositories / "good", "branch", "--list").split() == git(repositories / "other", "branch").split()


def test_a_second_run_does_what_is_left_and_no_more(repositories: Path) -> None:
    bulk(repositories)
    before = states(repositories)
    repository(repositories / "missing", TRAIN)
    (repositories / "other" / "train.py").write_text(TRAIN)
    git(repositories / "other", "commit", "--quiet", "--all", "--message", "it trains now")
    done = bulk(repositories)
    assert done.stderr.count("known from an earlier run") == 3
    after = states(repositories)
    assert after["good"] == before["good"]
    assert after["other"]["status"] == "migrated"
    assert after["missing"]["status"] == "failed"
    bulk(repositories, "--retry-failed")
    assert states(repositories)["missing"]["status"] == "migrated"


def test_a_checkout_that_was_edited_is_not_thrown_away(repositories: Path) -> None:
    bulk(repositories)
    (folder,) = (repositories / "out").glob("*good*")
    (folder / "checkout" / "train.py").write_text("mine\n")
    done = bulk(repositories, "--target", "native")
    assert "was edited since it was made" in done.stderr
    assert (folder / "checkout" / "train.py").read_text() == "mine\n"


def test_one_that_takes_too_long_is_listed_and_the_others_go_on(repositories: Path) -> None:
    (repositories / "repos.txt").write_text("good\n")
    done = bulk(repositories, "--timeout", "0.01")
    assert done.returncode == 1
    assert states(repositories)["good"]["reason"] == "not done within 0.01 s; see --timeout"


def test_a_dask_cluster_of_two_workers_does_the_same(repositories: Path) -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        env={"PYTHONPATH": ENVIRONMENT["PYTHONPATH"]},
    )
    with cluster:
        done = bulk(repositories, "--backend", "dask", "--scheduler", cluster.scheduler_address)
    assert done.returncode == 1, done.stderr
    assert {name: state["status"] for name, state in states(repositories).items()} == {
        "good": "migrated",
        "hard": "unchanged",
        "other": "unchanged",
        "missing": "failed",
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--upload-pack=touch", "looks like an option of git"),
        ("ext::sh -c touch", "would have git run a helper program"),
        ("-oProxyCommand=touch:x", "looks like an option of git"),
        ("good@..", "is no branch, tag or commit"),
        ("", "names no repository"),
    ],
)
def test_what_may_not_be_asked_of_git_is_refused(line: str, said: str, repositories: Path) -> None:
    (repositories / "repos.txt").write_text(f"{line}\n")
    done = bulk(repositories)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (repositories / "out").exists()


def test_a_backend_without_its_scheduler_is_refused(repositories: Path) -> None:
    done = bulk(repositories, "--backend", "dask")
    assert done.returncode == 2
    assert "--backend dask needs --scheduler ADDRESS" in done.stderr


def test_the_recipe_for_other_batch_tools_changes_files_or_nothing(tmp_path: Path) -> None:
    """What they run in each checkout: they commit if files changed, and take another status than 0 for a failure."""
    recipe = "ampify . --write --exit-zero"
    assert recipe in (ROOT / "docs" / "bulk.md").read_text()
    for name, text, changed in (("a", TRAIN, ["train.py"]), ("b", REFUSED, []), ("c", NOTHING, [])):
        checkout = repository(tmp_path / name, text)
        for expected in (changed, []):
            subprocess.run(
                [sys.executable, "-m", *recipe.split()], cwd=checkout, env=ENVIRONMENT, check=True, timeout=120
            )
            assert git(checkout, "diff", "--name-only").split() == expected
            assert not git(checkout, "ls-files", "--others", "--exclude-standard")
            git(checkout, "commit", "--quiet", "--all", "--allow-empty", "--message", "migrated")
