"""What a person reads: worst first, every refusal with its reason, and a summary that says what happened."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ampify.model.anchor import Anchor, line_anchor
from ampify.model.edit import Delete, Fix
from ampify.model.finding import Finding, Related
from ampify.model.plan import LoopSummary, Outcome, Report
from ampify.model.site import LedgerEntry, Site
from ampify.report.colour import paint, wants_colour
from ampify.report.diff import painted, unified
from ampify.report.status import exit_status
from ampify.report.text import Style, text_report
from ampify.source import decode_source

PLACE = Anchor("train.py", 3, 4, 3, 19, "Call")
FIXED = Finding("AMP201", "unscaled-backward", PLACE, "it is not scaled", fix=Fix((Delete(PLACE),)), loop="a")
REVIEW = replace(FIXED, code="AMP302", message="review me", fix=Fix((Delete(PLACE),), "unsafe"))
REFUSAL = Finding(
    "AMP204",
    "closure-step",
    PLACE,
    "it takes a closure",
    "write the loop out",
    refuses=True,
    loop="a",
    related=(Related(Anchor("build.py", 7, 0, 7, 9, "Assign"), "the optimizer is made here"),),
)
REMARK = Finding("AMP111", "torch-too-old", line_anchor("requirements.txt", 2), "too old")
INTERNAL = Finding("AMP901", "internal-failure", line_anchor("train.py", 1), "failed", refuses=True)
UNREADABLE = Finding("AMP005", "python-2-syntax", line_anchor("old.py", 9), "is Python 2", refuses=True)


def loop(state: str, name: str = "a", line: int = 1) -> LoopSummary:
    return LoopSummary(name, "train.py", line, ("model",), ("optimizer",), (), None, state)  # type: ignore[arg-type]


def outcome(raw: bytes, after: str, path: str = "train.py") -> Outcome:
    return Outcome(path, "changed", decode_source(raw, path), after)


CHANGED = outcome(b"a\n", "b\n")
UNCHANGED = Outcome("other.py", "unchanged")


def a_report(
    *findings: Finding, outcomes: tuple[Outcome, ...] = (UNCHANGED,), loops: tuple[LoopSummary, ...] = ()
) -> Report:
    return Report(outcomes, findings, loops, ())


# Findings


def test_worst_first_with_reasons_places_and_hints() -> None:
    failed = Outcome("old.py", "failed", reason="AMP005: is Python 2")
    text = text_report(a_report(REMARK, REFUSAL, FIXED, REVIEW, UNREADABLE, INTERNAL, outcomes=(failed,)))
    assert text.split("\n\n")[:-1] == [
        "Failed (2)\nold.py:9:1: AMP005 [python-2-syntax] is Python 2\ntrain.py:1:1: AMP901 [internal-failure] failed",
        "Not migrated (1)\n"
        "train.py:3:5: AMP204 [closure-step] it takes a closure\n"
        "    build.py:7: the optimizer is made here\n"
        "    hint: write the loop out",
        "To look at (2)\n"
        "requirements.txt:2:1: AMP111 [torch-too-old] too old\n"
        "train.py:3:5: AMP302 [unscaled-backward] review me",
    ]


def test_one_cause_that_forbids_several_loops_is_told_once() -> None:
    text = text_report(a_report(REFUSAL, replace(REFUSAL, loop="b")))
    assert text.startswith("Not migrated (1)\n")
    assert text.count("AMP204") == 1


def test_colour_changes_nothing_but_colour() -> None:
    report = a_report(REMARK, REFUSAL, INTERNAL, loops=(loop("refused"),))
    coloured = text_report(report, Style(colour=True))
    assert "\033[31mAMP204\033[0m" in coloured
    assert "\033[33mAMP111\033[0m" in coloured
    assert re.sub(r"\033\[\d+m", "", coloured) == text_report(report)
    assert "\033" not in text_report(report)


def test_a_loop_whose_refusal_is_silenced_is_not_passed_over() -> None:
    entry = LedgerEntry(Site("backward", PLACE, "a"), "refused", "AMP201")
    report = replace(a_report(loops=(loop("refused"),)), ledger=(entry,))
    said = "train.py:1: this training loop is left as it is, because what forbids it is silenced"
    assert f"{said} (AMP201)" in text_report(report)
    assert f"{said}\n" in text_report(replace(report, ledger=()))
    assert said not in text_report(replace(report, findings=(REFUSAL,)))


def test_a_refusal_of_a_site_speaks_of_its_loop() -> None:
    entry = LedgerEntry(Site("clip", PLACE, "a"), "refused", "AMP503")
    report = replace(a_report(loops=(loop("refused"),)), ledger=(entry,))
    clip = replace(REFUSAL, code="AMP503", name="apex-without-equal", anchor=PLACE, loop=None)
    elsewhere = replace(clip, anchor=replace(PLACE, line=PLACE.line + 9, end_line=PLACE.end_line + 9))
    assert "is silenced" in text_report(report)
    assert "is silenced" in text_report(replace(report, findings=(elsewhere,)))
    assert "is silenced" not in text_report(replace(report, findings=(clip,)))


# The summary


@pytest.mark.parametrize(
    ("report", "summary"),
    [
        (a_report(), "Nothing to do: no training loop found in 1 file."),
        (a_report(outcomes=(UNCHANGED, UNCHANGED)), "Nothing to do: no training loop found in 2 files."),
        (
            a_report(outcomes=(UNCHANGED, Outcome("a", "failed"), Outcome("b", "skipped"))),
            "Nothing to do: no training loop found in 3 files; 1 failed; 1 skipped.",
        ),
        (a_report(loops=(loop("right"),)), "Nothing to do: 1 training loop right already."),
        (a_report(loops=(loop("right"),) * 2), "Nothing to do: 2 training loops right already."),
        (a_report(REFUSAL, loops=(loop("refused"),)), "Nothing changed: 1 training loop not migrated."),
        (
            a_report(REFUSAL, outcomes=(CHANGED, UNCHANGED), loops=(loop("refused"), loop("migrated", "b"))),
            "1 file would change; 1 training loop would be migrated, 1 training loop not migrated.\n"
            "Nothing was written; --write writes it.",
        ),
        (
            replace(a_report(outcomes=(CHANGED, CHANGED), loops=(loop("migrated"),)), wrote=True),
            "2 files changed; 1 training loop migrated.",
        ),
        (
            a_report(outcomes=(CHANGED,)),
            "1 file would change; no training loop.\nNothing was written; --write writes it.",
        ),
    ],
)
def test_summary(report: Report, summary: str) -> None:
    assert text_report(report).endswith(f"{summary}\n")


def test_a_loop_that_is_in_mixed_precision_and_has_a_place_rewritten_is_mended() -> None:
    entry = LedgerEntry(Site("clip", PLACE, "a"), "rewritten", "AMP220")
    report = replace(a_report(outcomes=(CHANGED,), loops=(loop("right"), loop("right", "b"))), ledger=(entry,))
    assert "1 file would change; 1 training loop would be mended, 1 training loop right already.\n" in text_report(
        report
    )
    assert "1 file changed; 1 training loop mended, 1 training loop right already.\n" in text_report(
        replace(report, wrote=True)
    )
    assert "train.py:1: training loop of model with optimizer: would be mended\n" in text_report(
        report, Style(verbose=True)
    )


def test_a_check_names_the_files_and_does_not_advertise() -> None:
    text = text_report(a_report(outcomes=(CHANGED, UNCHANGED), loops=(loop("migrated"),)), Style(check=True))
    assert text == "would change train.py\n\n1 file would change; 1 training loop would be migrated.\n"


def test_a_written_run_names_the_files_and_the_copied_runtime() -> None:
    new = tuple(Outcome(f"lib/ampify_runtime/{name}.py", "changed", new_bytes=b"") for name in "ab")
    report = a_report(outcomes=(CHANGED, *new), loops=(loop("migrated"),))
    assert "2 files of the runtime would go to lib/ampify_runtime.\n" in text_report(report)
    assert text_report(replace(report, wrote=True)) == (
        "changed train.py\n\n1 file changed; 1 training loop migrated.\n2 files of the runtime went to lib/ampify_runtime.\n"
    )


# The exit status


@pytest.mark.parametrize(
    ("report", "plain", "check"),
    [
        (a_report(), 0, 0),
        (a_report(outcomes=(CHANGED,)), 0, 1),
        (a_report(REMARK), 0, 1),
        (a_report(REFUSAL), 1, 1),
        (a_report(UNREADABLE), 1, 1),
        (a_report(REFUSAL, INTERNAL), 2, 2),
    ],
)
def test_exit_status(report: Report, plain: int, check: int) -> None:
    assert exit_status(report) == plain
    assert exit_status(report, check=True) == check
    lenient = 2 if plain == 2 else 0
    assert exit_status(report, exit_zero=True) == lenient
    assert exit_status(report, check=True, exit_zero=True) == lenient


# The diff


DIFFS = {
    "plain": (b"one\ntwo\nthree\n", "one\n2\nthree\n"),
    "no final newline": (b"one\ntwo", "one\n2"),
    "a final newline comes": (b"one\ntwo", "one\ntwo\n"),
    "a final newline goes": (b"one\ntwo\n", "one\ntwo"),
    "windows": (b"one\r\ntwo\r\n", "one\r\n2\r\n"),
    "lone carriage returns": (b"one\rtwo\nthree\n", "one\rtwo\n3\n"),
    "byte-order mark": (b"\xef\xbb\xbfone\ntwo\n", "1\ntwo\n"),
    "latin-1": (b"# coding: latin-1\n# gr\xfc\xdfe\nx\n", "# coding: latin-1\n# gr\xfc\xdfe\ny\n"),
    "form feed and separators": ("a\x0cb\u2028c\nd\n".encode(), "a\x0cb\u2028c\ne\n"),
    "far apart": (b"a\n" + b"x\n" * 20 + b"b\n", "A\n" + "x\n" * 20 + "B\n"),
    "from nothing": (b"", "a\n"),
}


@pytest.mark.parametrize("name", DIFFS)
@pytest.mark.parametrize("tool", [["git", "apply"], ["patch", "-p1", "-s", "--binary", "-i"]], ids=["git", "patch"])
def test_the_diff_is_one_that_tools_apply(tmp_path: Path, name: str, tool: list[str]) -> None:
    before, after = DIFFS[name]
    changed = outcome(before, after, "a folder/train.py" if name == "plain" else "train.py")
    path = tmp_path / changed.path
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before)
    (tmp_path / "change.diff").write_bytes(unified(changed))
    done = subprocess.run([*tool, "change.diff"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert changed.before is not None
    assert path.read_bytes() == changed.before.encode(after)


def test_the_diff_names_paths_and_shows_what_changes() -> None:
    assert unified(outcome(b"one\ntwo\n", "one\n2\n", "/src/train.py")) == (
        b"--- a/src/train.py\n+++ b/src/train.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    )


def test_what_has_not_changed_has_no_diff() -> None:
    assert unified(UNCHANGED) == b""
    assert unified(Outcome("new.py", "changed", new_bytes=b"x")) == b""


def test_a_painted_diff_is_the_diff_in_colours() -> None:
    diff = unified(outcome(b"one\r\ntwo", "one\r\n2")).decode()
    shown = painted(diff)
    assert re.sub(r"\033\[\d+m", "", shown) == diff
    for line in ("\033[1m--- a/train.py\033[0m\n", "\033[31m-two\033[0m\n", "\033[32m+2\033[0m\n", " one\r\n"):
        assert line in shown
    assert "\033[36m@@" in shown
    assert paint("x", "red", enabled=False) == "x"


# How much is told


def test_places_that_are_refused_outside_of_loops_are_not_told_as_nothing_to_do() -> None:
    place = replace(REFUSAL, loop=None)
    said = text_report(a_report(place, replace(place, anchor=replace(PLACE, line=9))))
    assert said.endswith("\n\nNothing changed: 2 places of training code refused, no whole training loop in 1 file.\n")
    said = text_report(a_report(place, loops=(loop("right"),)))
    assert said.endswith("\n\nNothing changed: 1 training loop right already, 1 other place refused.\n")
    said = text_report(a_report(place, outcomes=(CHANGED,), loops=(loop("migrated"),)))
    assert "\n\n1 file would change; 1 training loop would be migrated, 1 other place refused.\n" in said


def test_quiet_keeps_what_failed_and_what_is_refused() -> None:
    report = a_report(REMARK, REFUSAL, FIXED, INTERNAL, outcomes=(CHANGED,), loops=(loop("refused"),))
    said = text_report(report, Style(quiet=True))
    assert re.findall(r"AMP\d+", said) == ["AMP901", "AMP204"]
    assert "would change" not in said
    assert text_report(a_report(REMARK), Style(quiet=True)) == ""


def test_verbose_shows_each_loop_with_its_sites() -> None:
    entries = (
        LedgerEntry(Site("backward", PLACE, "a"), "rewritten", "AMP201"),
        LedgerEntry(Site("save", replace(PLACE, line=8), "a"), "not_training", ""),
        LedgerEntry(Site("step", PLACE, "another"), "right", ""),
    )
    report = replace(a_report(FIXED, loops=(loop("migrated"),)), ledger=entries)
    assert text_report(report, Style(verbose=True)).startswith(
        "train.py:1: training loop of model with optimizer: would be migrated\n"
        "    train.py:3:5: backward rewritten AMP201 [unscaled-backward]\n"
        "    train.py:8:5: save not training\n\n"
    )
    assert "rewritten" not in text_report(report)


def test_statistics_count_each_rule_the_commonest_first() -> None:
    elsewhere = replace(FIXED, anchor=replace(PLACE, line=9), loop="b")
    report = a_report(
        REFUSAL, replace(REFUSAL, loop="b"), FIXED, elsewhere, REMARK, loops=(loop("migrated"), loop("refused", "b"))
    )
    assert text_report(report, Style(quiet=True, statistics=True)).split("\n\n")[-1] == (
        "2  AMP201 [unscaled-backward] (1 withheld, 1 applied)\n"
        "1  AMP111 [torch-too-old] (1 to look at)\n"
        "1  AMP204 [closure-step] (1 refused)\n"
    )
    assert text_report(a_report(), Style(quiet=True, statistics=True)) == ""


@pytest.mark.parametrize(
    ("environment", "terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_whether_colours_are_wanted(environment: dict[str, str], terminal: bool, wanted: bool) -> None:
    assert wants_colour(environment, terminal=terminal) is wanted
