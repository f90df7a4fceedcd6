"""The cache: a second run over the same files answers alike without analysing, and never from what cannot be trusted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ampify.cache import Entries, Malformed, cache_folder, read_value, written_value
from ampify.model.anchor import Anchor
from ampify.model.edit import AddImport, Fix, InsertAfter, Replace
from ampify.model.finding import Finding, Related
from ampify.pipeline.remembering import WORTH_KEEPING
from tests.processes import ENVIRONMENT, ROOT, command

LOOP = (ROOT / "fixtures" / "checkpoint_resume" / "before").resolve()
Run = Callable[..., subprocess.CompletedProcess[bytes]]

WHERE = Anchor("train.py", 3, 4, 3, 19, "Call")
FINDING = Finding(
    "AMP201",
    "unscaled-backward",
    WHERE,
    "a message with ünïcode",
    fix=Fix((Replace(WHERE, "x"), InsertAfter(WHERE, "y\n"), AddImport("train.py", "a", "b")), "unsafe", "loop"),
    related=(Related(WHERE, "here"),),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project of one script, large enough to be kept."""
    project = tmp_path / "project"
    project.mkdir()
    padding = b"# padding\n" * (WORTH_KEEPING // 10)
    (project / "main.py").write_bytes((LOOP / "main.py").read_bytes() + padding)
    return project


@pytest.fixture
def ampify(tree: Path, tmp_path: Path) -> Run:
    """Runs the command in the project, with a cache folder of its own."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
        environment = {**ENVIRONMENT, "AMPIFY_CACHE_DIR": str(tmp_path / "cache"), **variables}
        return subprocess.run(
            command("-j1", *arguments, "."), cwd=tree, env=environment, capture_output=True, check=False
        )

    return run


def entries(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").glob("*.json"))


def marked(tmp_path: Path) -> str:
    """Changes one message in the only entry, and gives the new one: a report that shows it came from the cache."""
    (entry,) = entries(tmp_path)
    text = entry.read_text("utf-8")
    assert '"AMP' in text
    code = text[text.index('"AMP') + 1 :][:6]
    entry.write_text(text.replace(code, "AMP999"), "utf-8")
    return "AMP999"


@pytest.mark.parametrize("arguments", [(), ("--check",), ("--format", "json")])
def test_a_second_run_answers_as_the_first(ampify: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    first = ampify(*arguments)
    assert len(entries(tmp_path)) == 1
    second = ampify(*arguments)
    assert (second.returncode, second.stdout, second.stderr) == (first.returncode, first.stdout, first.stderr)
    assert first.stdout or first.stderr


def test_the_second_run_does_not_analyse(ampify: Run, tmp_path: Path) -> None:
    ampify("--format", "json")
    mark = marked(tmp_path)
    assert mark.encode() in ampify("--format", "json").stdout
    assert mark.encode() not in ampify("--format", "json", "--no-cache").stdout


def test_what_is_written_comes_from_the_files(ampify: Run, tmp_path: Path, tree: Path) -> None:
    ampify()
    (entry,) = entries(tmp_path)
    entry.write_text(entry.read_text("utf-8").replace("scale_loss", "stolen"), "utf-8")
    assert ampify("--write").returncode in (0, 1)
    text = (tree / "main.py").read_text("utf-8")
    assert "scale_loss" in text
    assert "stolen" not in text


@pytest.mark.parametrize("change", ["edit", "add", "option"])
def test_what_changed_is_analysed(ampify: Run, tmp_path: Path, tree: Path, change: str) -> None:
    before = ampify("--format", "json").stdout
    marked(tmp_path)
    options: list[str] = []
    if change == "edit":
        path = tree / "main.py"
        path.write_text("\n" + path.read_text("utf-8"), "utf-8")
    elif change == "add":
        (tree / "more.py").write_text("", "utf-8")
    else:
        options = ["--opt-level", "O2"]
    after = ampify("--format", "json", *options).stdout
    assert b"AMP999" not in after
    assert json.loads(after)["summary"].keys() == json.loads(before)["summary"].keys()
    assert len(entries(tmp_path)) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[" * 100_000,
        lambda text: text.replace('"Anchor"', '"SourceFile"'),
        lambda text: text.replace('"unchanged"', '"burned"').replace('"changed"', '"burned"'),
        lambda text: text.replace('"data":["_Kept"', '"data":["_Kept",1'),
        lambda text: text.replace('"key":"', '"key":"0'),
        lambda text: "\x80\x04N.",
    ],
)
def test_a_damaged_entry_is_ignored_and_replaced(ampify: Run, tmp_path: Path, damage: Callable[[str], str]) -> None:
    first = ampify("--format", "json")
    (entry,) = entries(tmp_path)
    whole = entry.read_text("utf-8")
    assert damage(whole) != whole
    entry.write_text(damage(whole), "utf-8")
    second = ampify("--format", "json")
    assert (second.returncode, second.stdout, second.stderr) == (first.returncode, first.stdout, first.stderr)
    assert entries(tmp_path) == [entry]
    assert entry.read_text("utf-8") == whole


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have owners and modes on POSIX")
def test_a_folder_that_others_may_write_is_not_trusted(ampify: Run, tmp_path: Path) -> None:
    ampify("--format", "json")
    mark = marked(tmp_path)
    (tmp_path / "cache").chmod(0o777)
    assert mark.encode() not in ampify("--format", "json").stdout


def test_a_folder_that_cannot_be_made_stops_nothing(ampify: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    done = ampify("--check", AMPIFY_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert done.returncode == 1
    assert b"internal" not in done.stderr


def test_a_small_run_keeps_nothing(ampify: Run, tmp_path: Path, tree: Path) -> None:
    (tree / "main.py").write_bytes((LOOP / "main.py").read_bytes())
    ampify()
    assert entries(tmp_path) == []


def test_the_folder_is_marked_for_backups_and_git(ampify: Run, tmp_path: Path) -> None:
    ampify()
    assert (
        (tmp_path / "cache" / "CACHEDIR.TAG")
        .read_text("utf-8")
        .startswith("Signature: 8a477f597d28d172789f06886806bc55")
    )
    assert (tmp_path / "cache" / ".gitignore").read_text("utf-8") == "*\n"


def test_only_so_many_entries_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ampify.cache.store.MOST_ENTRIES", 3)
    store = Entries(tmp_path / "cache")
    for number in range(5):
        store.keep(f"{number}", number)
        os.utime(tmp_path / "cache" / f"{number}.json", (number, number))
    store.keep("5", 5)
    assert [store.find(str(number)) for number in range(6)] == [None, None, None, 3, 4, 5]


def test_values_come_back_as_they_were() -> None:
    data = json.loads(json.dumps(written_value((FINDING, replace(FINDING, fix=None)))))
    assert read_value(data, tuple[Finding, ...]) == (FINDING, replace(FINDING, fix=None))


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        ["Finding"],
        ["Anchor", "train.py", 3, 4, 3, 19],
        ["Anchor", "train.py", 3, 4, 3, "19", "Call"],
        ["Anchor", "train.py", True, 4, 3, 19, "Call"],
        ["Path", "train.py", 3, 4, 3, 19, "Call"],
    ],
)
def test_other_values_are_refused(data: object) -> None:
    with pytest.raises(Malformed):
        read_value(data, Anchor)


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(Malformed):
        written_value({"a": 1})


def test_the_folder_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder({}) == tmp_path / ".cache" / "ampify" / "runs"
    assert cache_folder({"XDG_CACHE_HOME": "/elsewhere"}) == Path("/elsewhere/ampify/runs")
    assert cache_folder({"AMPIFY_CACHE_DIR": "/chosen"}) == Path("/chosen")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder({}) == tmp_path / "Library" / "Caches" / "ampify" / "runs"
