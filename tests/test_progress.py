"""The progress line: on a terminal only, and gone at the end."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ampify.report.progress import DELAY, Line
from tests.processes import ENVIRONMENT, ROOT

pty = pytest.importorskip("pty", reason="terminals to test on are POSIX's")

SCRIPT = ROOT / "fixtures" / "checkpoint_resume" / "before" / "main.py"
# As `python -m ampify`, but without waiting whether the run takes long.
AT_ONCE = "import ampify.report.progress as progress; progress.DELAY = -1; from ampify.cli import main; main()"


def on_terminal(folder: Path, *arguments: str, term: str = "xterm") -> bytes:
    """What a check prints on a terminal as its standard error."""
    ours, theirs = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": term}
    command = [sys.executable, "-c", AT_ONCE, "--check", "--no-cache", *arguments, "."]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=theirs) as child:
        os.close(theirs)
        printed = b""
        while True:
            try:
                more = os.read(ours, 65_536)
            except OSError:  # Linux' word for the end
                more = b""
            if not more:
                break
            printed += more
    os.close(ours)
    assert child.returncode == 1
    return printed


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "main.py").write_bytes(SCRIPT.read_bytes())
    return tmp_path


def test_a_terminal_shows_it_and_is_left_clean(project: Path) -> None:
    printed = on_terminal(project)
    assert b"\r\x1b[Kreading 0/1  main.py" in printed
    *_, rest = printed.split(b"\r\x1b[K")
    assert b"reading" not in rest
    assert b"main.py" in rest


@pytest.mark.parametrize(("arguments", "term"), [(("--quiet",), "xterm"), ((), "dumb")])
def test_there_are_terminals_without_it(project: Path, arguments: tuple[str, ...], term: str) -> None:
    assert b"\x1b[K" not in on_terminal(project, *arguments, term=term)


def test_a_pipe_gets_nothing_of_it(project: Path) -> None:
    environment = {**ENVIRONMENT, "TERM": "xterm"}
    command = [sys.executable, "-c", AT_ONCE, "--check", "--no-cache", "."]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"\x1b[K" not in done.stderr


def test_count_rate_and_file_fit_the_line() -> None:
    stream, now = io.StringIO(), [10.0]
    line = Line(stream, clock=lambda: now[0], width=lambda: 30)
    line.show("reading", 0, 200, "early.py")
    assert stream.getvalue() == ""
    now[0] += max(DELAY, 1.0)
    line.show("reading", 50, 200, "a/\x1b[31mvery/long/path/to/a/file.py")
    shown = stream.getvalue().removeprefix("\r\x1b[K")
    assert shown == "reading 50/200  50/s  a/?[31m"
    line.show("reading", 51, 200, "too soon.py")
    assert stream.getvalue().endswith(shown)
    line.erase()
    assert stream.getvalue().endswith("\r\x1b[K")
