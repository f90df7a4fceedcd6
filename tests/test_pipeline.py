"""When a stage fails, everything that belongs to the change is put back, it is said, and the rest is done."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ampify import pipeline
from ampify.model.anchor import Anchor, line_anchor
from ampify.model.edit import Edit, Fix, InsertAfter, Replace
from ampify.model.finding import Finding
from ampify.model.plan import Report
from ampify.model.project import Project
from ampify.model.settings import Settings
from ampify.pipeline import rewriting, surroundings
from ampify.pipeline.rewriting import Rewritten, rewrite_file
from ampify.report.status import exit_status
from ampify.rules import Check, Rule, all_rules
from ampify.source import decode_source

TRAIN = """\
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.zero_grad()
model(torch.ones(2)).sum().backward()
optimizer.step()
"""
MIGRATED = """\
import torch
from ampify_runtime import amp
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
optimizer.zero_grad()
with amp.scale_loss(model(torch.ones(2)).sum(), optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.py").write_text(text, encoding="utf-8")


def with_rule(monkeypatch: pytest.MonkeyPatch, edits: Callable[[str, Anchor, str], list[Edit]]) -> None:
    """A further rule: for each training loop the edits that `edits` makes of path, first backward and text."""

    def check(project: Project, settings: Settings) -> Iterator[Finding]:
        for loop in project.loops:
            place = loop.backwards[0]
            made = edits(place.path, place, "".join(project.files[place.path].lines))
            if made:
                yield Finding("AMP299", "n", place, "m", fix=Fix(tuple(made), group=loop.id), loop=loop.id)

    with_check(monkeypatch, check)


def with_check(monkeypatch: pytest.MonkeyPatch, check: Check) -> None:
    rules = (*all_rules(), Rule("AMP299", "further-rule", "m", "", check))
    monkeypatch.setattr("ampify.rules.all_rules", lambda: rules)


def run(**settings: object) -> Report:
    return pipeline.run([Path()], Settings(**settings))  # type: ignore[arg-type]


def fate(report: Report) -> dict[str, str]:
    return {outcome.path: outcome.status for outcome in report.outcomes}


def marked(path: str, place: Anchor, text: str) -> list[Edit]:
    """An edit that a second run finds made."""
    return [] if "MARK" in text else [InsertAfter(line_statement(path), "MARK = 1")]


def line_statement(path: str) -> Anchor:
    return Anchor(path, 2, 0, 2, 29, "Assign")


def internal(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.code == "AMP901"]


def test_an_edit_that_cannot_be_made_puts_its_loop_back_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def edits(path: str, place: Anchor, text: str) -> list[Edit]:
        wrong: list[Edit] = [Replace(Anchor(path, 3, 1, 3, 3, "Name"), "x")]
        return wrong if path == "bad.py" else marked(path, place, text)

    with_rule(monkeypatch, edits)
    write(bad=TRAIN, good=TRAIN)
    report = run()
    assert fate(report) == {"bad.py": "refused", "good.py": "changed"}
    (failure,) = internal(report)
    assert failure.anchor == line_anchor("bad.py", 1)
    assert failure.refuses
    assert [(loop.path, loop.state) for loop in report.loops] == [("bad.py", "refused"), ("good.py", "migrated")]
    assert {entry.code for entry in report.ledger if entry.site.anchor.path == "bad.py"} == {"AMP901"}
    assert exit_status(report, exit_zero=True) == 2


@pytest.mark.parametrize("stable", [True, False])
def test_beside_a_loop_that_was_put_back_the_others_still_have_to_be_stable(
    monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    def edits(path: str, place: Anchor, text: str) -> list[Edit]:
        shared: list[Edit] = [InsertAfter(line_statement("shared.py"), f"{path[:-3].upper()} = 1")]
        if path == "bad.py":
            return [Replace(Anchor(path, 3, 1, 3, 3, "Name"), "x"), *shared]
        if path == "good.py" and not ("MARK" in text and stable):
            return marked(path, place, text) + shared
        return []

    with_rule(monkeypatch, edits)
    write(bad=TRAIN, good=TRAIN, shared=TRAIN)
    report = run()
    assert fate(report)["good.py"] == ("changed" if stable else "refused")
    assert [finding.anchor.path for finding in internal(report)] == (
        ["bad.py"] if stable else ["bad.py", "shared.py", "shared.py"]
    )


def test_a_result_that_the_gate_refuses_is_put_back_and_shown_to_who_asks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_rule(monkeypatch, lambda path, place, text: [InsertAfter(line_statement(path), "print(nowhere_bound)")])
    write(train=TRAIN)
    with caplog.at_level(logging.DEBUG, "ampify"):
        report = run()
    assert fate(report) == {"train.py": "refused"}
    assert "nowhere_bound" in internal(report)[0].message
    assert "the change that was put back:\n--- train.py\n+++ train.py (put back)\n" in caplog.text
    assert "\n+print(nowhere_bound)\n" in caplog.text


def test_a_result_that_a_second_run_would_change_is_put_back_and_shown_to_who_asks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_rule(monkeypatch, lambda path, place, text: [InsertAfter(line_statement(path), "MARK = 1")])
    write(train=TRAIN)
    with caplog.at_level(logging.DEBUG, "ampify"):
        report = run()
    assert fate(report) == {"train.py": "refused"}
    assert re.search(
        r"a second run would change the result again \(AMP299 in line \d+ of it\)", internal(report)[0].message
    )
    assert "the change that was put back:\n--- train.py\n+++ train.py (put back)\n" in caplog.text
    assert "\n+MARK = 1\n" in caplog.text


def test_a_result_that_a_second_run_would_refuse_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(project: Project, settings: Settings) -> Iterator[Finding]:
        (loop,) = project.loops
        if loop.migrated:
            yield Finding("AMP299", "n", loop.anchor, "m", refuses=True, loop=loop.id)

    with_check(monkeypatch, check)
    write(train=TRAIN)
    report = run()
    assert fate(report) == {"train.py": "refused"}
    assert "a second run would refuse what this one made" in internal(report)[0].message


def test_a_change_that_would_entail_another_elsewhere_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(project: Project, settings: Settings) -> Iterator[Finding]:
        marked = "MARK" in project.files["first.py"].names
        for loop in project.loops:
            path = loop.anchor.path
            if marked == (path == "second.py"):
                fix = Fix((InsertAfter(line_statement(path), "MARK = 1"),), group=loop.id)
                yield Finding("AMP299", "n", loop.anchor, "m", fix=fix, loop=loop.id)

    with_check(monkeypatch, check)
    write(first=TRAIN, second=MIGRATED)
    report = run()
    assert fate(report) == {"first.py": "refused", "second.py": "unchanged"}
    assert [finding.anchor.path for finding in internal(report)] == ["first.py"]
    assert "second.py: a second run would change the result again" in internal(report)[0].message


def test_a_stage_that_raises_fails_that_file_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def check(before: object, after: str, edits: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(rewriting, "check", check)
    with_rule(monkeypatch, marked)
    write(train=TRAIN)
    with caplog.at_level(logging.DEBUG, "ampify"):
        report = run()
    assert "KeyError: 'gone'" in internal(report)[0].message
    assert "Traceback" not in internal(report)[0].message
    assert "Traceback (most recent call last)" in caplog.text


def test_many_files_go_to_several_processes_with_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [decode_source(TRAIN.encode(), f"train_{number}.py") for number in range(17)]
    jobs: list[rewriting.Job] = [
        (source, (InsertAfter(line_statement(source.path), "MARK = 1"),), ()) for source in sources
    ]
    assert rewriting.rewrite_files(jobs, 2) == rewriting.rewrite_files(jobs, 1) == tuple(map(rewrite_file, jobs))
    assert all(result.text for result in rewriting.rewrite_files(jobs, 8))


@pytest.mark.parametrize(
    ("rewritten", "said"),
    [
        (Rewritten("requirements.txt", None, "no room"), "no room"),
        (Rewritten("requirements.txt", "numpy\nampify>=0.1\n"), "would not list what it should"),
        (Rewritten("requirements.txt", "torch\n"), "would not list what it should"),
    ],
)
def test_a_requirement_that_cannot_be_added_is_said_and_the_loop_stands(
    monkeypatch: pytest.MonkeyPatch, rewritten: Rewritten, said: str
) -> None:
    with_rule(monkeypatch, marked)
    write(train=TRAIN)
    Path("requirements.txt").write_text("torch\n")
    monkeypatch.setattr(surroundings, "rewrite_file", lambda job: rewritten)
    report = run()
    assert fate(report) == {"train.py": "changed", "requirements.txt": "failed"}
    (failure,) = internal(report)
    assert said in failure.message
    assert exit_status(report) == 2


def test_a_report_without_changes_writes_nothing(folder: Path) -> None:
    write(quiet="x = 1\n")
    report = pipeline.write(run(), Settings())
    assert not report.wrote
    assert not (folder / ".ampify").exists()
