"""`per-file-ignores`: which findings of which files are not heeded, and what is said of a table that makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ampify.cli import main

CLOSURE = """\
import torch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step(lambda: loss)
"""
PLAIN = CLOSURE.replace("lambda: loss", "")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "old/train.py", "old/deep/run.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(CLOSURE)
    return tmp_path


def preset(text: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.ampify.per-file-ignores]\n{text}\n")


def told(*arguments: str) -> set[str]:
    """The files of which a finding with the code AMP204 is told."""
    result = CliRunner().invoke(main, ["--check", *(arguments or ["."])])
    assert result.exit_code in (0, 1), result.stderr
    return {line.partition(":")[0] for line in result.stderr.splitlines() if ": AMP204 " in line}


@pytest.mark.parametrize(
    ("table", "silent"),
    [
        ('"old/*" = ["AMP204"]', {"old/train.py", "old/deep/run.py"}),
        ('"old/**" = ["AMP2"]', {"old/train.py", "old/deep/run.py"}),
        ('"./old/*.py" = ["AMP204"]', {"old/train.py", "old/deep/run.py"}),
        ('"train.py" = ["AMP204"]', {"train.py", "old/train.py"}),
        ('"**/run.py" = ["AMP204"]', {"old/deep/run.py"}),
        ('"old/**/train.py" = ["AMP204"]', {"old/train.py"}),
        ('"!old/*" = ["AMP204"]', {"train.py"}),
        ('"old/*" = ["AMP201"]', set()),
        ('"old/*" = []', set()),
        ('"run.py" = ["AMP204"]\n"old/t*.py" = ["AMP2"]', {"old/train.py", "old/deep/run.py"}),
    ],
)
def test_findings_of_the_files_that_a_pattern_fits_are_not_told(table: str, silent: set[str]) -> None:
    everything = {"train.py", "old/train.py", "old/deep/run.py"}
    assert told() == everything
    preset(table)
    assert told() == everything - silent


def test_patterns_start_at_the_folder_of_the_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset('"old/*" = ["AMP204"]')
    monkeypatch.chdir(folder / "old" / "deep")
    assert told("run.py") == set()
    assert told("../../train.py") == {"../../train.py"}


def test_what_is_not_told_still_forbids() -> None:
    preset('"*.py" = ["AMP204"]')
    result = CliRunner().invoke(main, ["--write", "."])
    assert Path("train.py").read_text() == CLOSURE
    assert "what forbids it is silenced (AMP204)" in result.stderr


def test_a_fix_that_is_ignored_is_not_made_there_and_made_elsewhere() -> None:
    for name in ("train.py", "old/train.py"):
        Path(name).write_text(PLAIN)
    preset('"old/*" = ["AMP201"]')
    CliRunner().invoke(main, ["--write", "."])
    assert "amp.scale_loss" in Path("train.py").read_text()
    assert Path("old/train.py").read_text() == PLAIN


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('[tool.ampify.per-file-ignore]\n"a" = ["AMP2"]', "unknown key `per-file-ignore`"),
        ('[tool.ampify.per-file-ignore]\n"a" = ["AMP2"]', "did you mean `per-file-ignores`?"),
        ('[tool.ampify.per_file_ignores]\n"a" = ["AMP2"]', "did you mean `per-file-ignores`?"),
        ('[tool.ampify]\nper-file-ignores = ["a"]', "`per-file-ignores` must be a table of patterns"),
        ('[tool.ampify.per-file-ignores]\n"a" = "AMP2"', "`per-file-ignores` must be a table of patterns"),
        ('[tool.ampify.per-file-ignores]\n"a" = [2]', "`per-file-ignores` must be a table of patterns"),
        ('[tool.ampify.per-file-ignores]\n"old/*" = ["AMP2041"]', 'per-file-ignores "'),
        (
            '[tool.ampify.per-file-ignores]\n"old/*" = ["AMP2041"]',
            "AMP2041: no rule has a code that starts so; did you",
        ),
        ('[tool.ampify.per-file-ignores]\n"old/*" = ["amp204"]', "did you mean AMP204?"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_with_the_nearest_right_word(table: str, says: str) -> None:
    Path("pyproject.toml").write_text(table)
    result = CliRunner().invoke(main, ["."])
    assert result.exit_code == 2
    assert says in result.stderr
