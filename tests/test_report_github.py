"""Workflow commands as GitHub reads them: one a finding, the worst first, whatever is in the text."""

from __future__ import annotations

import re
from pathlib import Path

from ampify.model.anchor import Anchor, line_anchor
from ampify.model.finding import Finding, Related
from ampify.model.plan import Report
from ampify.report.github import github_report
from tests.reported import MIXED, report_of

COMMAND = re.compile(r"::(?P<command>error|warning|notice) (?P<properties>[^\n]*?)::(?P<message>[^\n]*)")


def read(text: str) -> list[tuple[str, dict[str, str], str]]:
    """What GitHub's runner makes of the lines: command, properties and message, without the escapes."""
    commands = []
    for line in text.splitlines():
        match = COMMAND.fullmatch(line)
        assert match, line
        pairs = (pair.split("=", 1) for pair in match["properties"].split(","))
        properties = {key: unescaped(value) for key, value in pairs}
        commands.append((match["command"], properties, unescaped(match["message"])))
    return commands


def unescaped(text: str) -> str:
    codes = {"%25": "%", "%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}
    return re.sub("%(25|0D|0A|3A|2C)", lambda match: codes[match[0]], text)


def test_a_real_run_the_worst_first(tmp_path: Path) -> None:
    commands = read(github_report(report_of(tmp_path, MIXED)))
    kinds = [command for command, _, _ in commands]
    assert kinds == sorted(kinds, key=["error", "warning", "notice"].index)
    told = {(command, p["file"], p["line"], p["title"]) for command, p, _ in commands}
    assert told >= {
        ("error", "torn.py", "2", "AMP003 syntax-error"),
        ("error", "fit.py", "14", "AMP204 closure-step"),
        ("warning", "train.py", "1", "AMP110 runtime-requirement-missing"),
        ("notice", "train.py", "9", "AMP201 unscaled-backward"),
        ("notice", "train.py", "10", "AMP202 clip-of-model-parameters"),
    }
    (backward,) = (p for _, p, _ in commands if p["file"] == "train.py" and p["title"].startswith("AMP201"))
    assert (backward["col"], backward["endColumn"], backward["endLine"]) == ("5", "19", "9")
    assert MIXED["train.py"].splitlines()[8][4:19] == "loss.backward()"


def test_whatever_is_in_the_text_stays_one_command() -> None:
    place = Anchor("a,b:c%.py", 3, 0, 5, 2, "Call")
    related = Related(line_anchor("other.py", 7), "made\nhere")
    finding = Finding(
        "AMP204", "closure-step", place, "100%::error,\r\nx", "do: this", refuses=True, related=(related,)
    )
    ((command, properties, message),) = read(github_report(Report((), (finding,), (), ())))
    assert command == "error"
    # Columns mean nothing to GitHub where a range has several lines.
    assert properties == {"file": "a,b:c%.py", "line": "3", "endLine": "5", "title": "AMP204 closure-step"}
    assert message == "100%::error,\r\nx\nother.py:7: made\nhere\nhint: do: this"


def test_nothing_to_say() -> None:
    assert github_report(Report((), (), (), ())) == ""
