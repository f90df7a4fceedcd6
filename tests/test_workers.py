"""Worker processes that crash, hang, recurse or are killed: what they were at is told of, and all else is done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ampify.pipeline.workers import Lost, spread
from tests.processes import ENVIRONMENT, TRAIN

# As `python -m ampify`, with workers for the smallest files, and so many seconds for each.
SMALL = """
import signal, sys
from ampify.pipeline import extracting, workers
extracting.BYTES_PER_WORKER, workers.TIME_LIMIT = 100, float(sys.argv.pop(1))
{more}
from ampify.cli import main
main()
"""
# No file is known that crashes Python's own parser, or that it never gets through: these stand for those to come.
STRANGE = """
import time
read = extracting._read_modestly
def strange(source):
    if source.path == "bomb.py":
        signal.raise_signal(signal.SIGSEGV)
    time.sleep({"endless.py": 600, "slow.py": 3}.get(source.path, 0))
    return read(source)
extracting._read_modestly = strange
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are no copies of their parent")


def told(item: str) -> str:
    """What a worker does in these tests."""
    if item == "crash":
        signal.raise_signal(signal.SIGSEGV)
    elif item == "exit":
        os._exit(3)
    elif item == "hang":
        time.sleep(600)
    elif item.startswith("once "):
        marker = Path(item.removeprefix("once "))
        if not marker.exists():
            marker.touch()
            signal.raise_signal(signal.SIGKILL)
    return item.upper()


def children() -> list[str]:
    """Living child processes of this one, workers or not."""
    found = (path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if path.exists())
    fields = [text.rpartition(")")[2].split() for text in found]
    return [state for state, parent, *_ in fields if int(parent) == os.getpid() and state != "Z"]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_kills_or_hangs_a_worker_is_lost_alone(tmp_path: Path, workers: int) -> None:
    items = ["a", "crash", "b", "hang", "c", "exit", f"once {tmp_path / 'marker'}", *"defgh"]
    before = len(children())
    results = dict(spread(told, items, workers, limit=3))
    lost = {items[number]: result.reason for number, result in results.items() if isinstance(result, Lost)}
    assert lost == {
        "crash": "killed its process (SIGSEGV)",
        "exit": "killed its process (exit status 3)",
        "hang": "took longer than 3 seconds",
    }
    assert sorted(results) == list(range(len(items)))
    assert all(results[n] == item.upper() for n, item in enumerate(items) if item not in lost)
    assert len(children()) == before


def test_no_worker_outlives_an_iteration_that_is_given_up() -> None:
    before = len(children())
    results = spread(told, ["a", "hang", "hang"], 2)
    assert next(results) == (0, "A")
    assert len(children()) == before + 2
    results.close()
    assert len(children()) == before


def write_tree(folder: Path, count: int = 12) -> None:
    for number in range(1, count + 1):
        (folder / f"train{number:02}.py").write_text(TRAIN.format(number=number))


def started(folder: Path, *arguments: str, seconds: float = 600, more: str = "") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", SMALL.format(more=more), str(seconds), *arguments, "--no-cache", "."]
    return subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def report(process: subprocess.Popen[bytes]) -> dict[str, list[dict[str, object]]]:
    out, err = process.communicate(timeout=120)
    assert out, err
    found: dict[str, list[dict[str, object]]] = json.loads(out)
    return found


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The workers of a run, as soon as it has some."""
    while process.poll() is None:
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                _, parent, *_ = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(parent) == process.pid:
                return [int(path.parent.name)]
    return []


def members(group: int) -> list[str]:
    """Living processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, number, *_ = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(number) == group and state != "Z":
            found.append(path.parent.name)
    return found


def test_a_file_that_crashes_its_reader_is_reported_and_the_rest_migrates(tmp_path: Path) -> None:
    write_tree(tmp_path)
    (tmp_path / "bomb.py").write_text(TRAIN.format(number=2))
    found = report(started(tmp_path, "-j2", "--format", "json", "--write", more=STRANGE))
    (finding,) = [f for f in found["findings"] if f["code"] == "AMP904"]
    assert (finding["path"], finding["applicability"]) == ("bomb.py", "none")
    assert "killed its process (SIGSEGV)" in str(finding["message"])
    statuses = {str(file["path"]): file["status"] for file in found["files"]}
    assert statuses.pop("bomb.py") == "failed"
    assert set(statuses.values()) == {"changed"}
    assert (tmp_path / "bomb.py").read_text() == TRAIN.format(number=2)
    assert "scale_loss" in (tmp_path / "train01.py").read_text()


def test_a_file_that_takes_too_long_is_reported_and_the_rest_migrates(tmp_path: Path) -> None:
    write_tree(tmp_path)
    (tmp_path / "endless.py").write_text(TRAIN.format(number=2))
    found = report(started(tmp_path, "-j2", "--format", "json", seconds=5, more=STRANGE))
    (finding,) = [f for f in found["findings"] if f["code"] == "AMP904"]
    assert finding["path"] == "endless.py"
    assert "took longer than 5 seconds" in str(finding["message"])
    assert sum(file["status"] == "changed" for file in found["files"]) == 12


def test_a_killed_worker_changes_nothing_of_the_result(tmp_path: Path) -> None:
    write_tree(tmp_path)
    (tmp_path / "slow.py").write_text(TRAIN.format(number=2))
    process = started(tmp_path, "-j2", "--format", "json", more=STRANGE)
    for pid in workers_of(process):
        os.kill(pid, signal.SIGKILL)
    assert report(process) == report(started(tmp_path, "-j1", "--format", "json"))


def test_ctrl_c_leaves_no_worker_and_no_file_half_written(tmp_path: Path) -> None:
    write_tree(tmp_path)
    (tmp_path / "slow.py").write_text(TRAIN.format(number=2))
    process = started(tmp_path, "-j2", "--write", more=STRANGE)
    assert workers_of(process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b"ampify: interrupted; no file is half written\n"
    assert members(process.pid) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["slow.py", *(f"train{n:02}.py" for n in range(1, 13))]
    assert all(path.read_text() == TRAIN.format(number=n) for n, path in enumerate(sorted(tmp_path.glob("t*.py")), 1))


# Each stands beside a training loop, and Python runs it.
DEEP = {
    "sum": "total = " + " + ".join(f"x{number}" for number in range(900)),
    "elif": "def f(x):\n    if x < 0:\n        y = 0\n" + "".join(f"    elif x == {n}: y = {n}\n" for n in range(600)),
    "calls": "y = x" + ".a(1)" * 200,
    "minus": "y = " + "-" * 900 + "1",
    "lists": "y = " + "[" * 190 + "]" * 190,
    "parentheses": "y = " + "(" * 190 + ")" * 190,
    "blocks": "\n".join("    " * level + f"if x{level}:" for level in range(90)) + "\n" + "    " * 90 + "pass",
}


@pytest.mark.parametrize("jobs", ["-j1", "-j2"])
def test_deep_code_elsewhere_stops_no_loop(tmp_path: Path, jobs: str) -> None:
    for name, code in DEEP.items():
        (tmp_path / f"{name}.py").write_text(TRAIN.format(number=2) + code + "\n")
    found = report(started(tmp_path, jobs, "--format", "json", "--write"))
    assert {file["path"]: file["status"] for file in found["files"]} == {f"{name}.py": "changed" for name in DEEP}
    for name, code in DEEP.items():
        text = (tmp_path / f"{name}.py").read_text()
        assert "scale_loss" in text
        assert text.endswith(code + "\n")


def test_a_deep_expression_in_the_loop_itself_is_no_reason_to_stop(tmp_path: Path) -> None:
    long = "model(torch.ones(8, 4)).pow(2).mean()" + " + 0" * 900
    text = TRAIN.format(number=2).replace("model(torch.ones(8, 4)).pow(2).mean().backward()", f"({long}).backward()")
    (tmp_path / "train.py").write_text(text)
    found = report(started(tmp_path, "--format", "json", "--write"))
    assert [file["status"] for file in found["files"]] == ["changed"]
    assert f"with amp.scale_loss({long}, optimizer) as scaled_loss:" in (tmp_path / "train.py").read_text()


def test_more_brackets_than_python_reads_are_reported_as_that_and_the_rest_migrates(tmp_path: Path) -> None:
    write_tree(tmp_path, 2)
    (tmp_path / "deep.py").write_text(TRAIN.format(number=2) + "y = " + "(" * 3_000 + ")" * 3_000 + "\n")
    found = report(started(tmp_path, "-j2", "--format", "json"))
    (finding,) = [f for f in found["findings"] if f["path"] == "deep.py"]
    assert (finding["code"], finding["message"], finding["line"]) == (
        "AMP003",
        "does not parse: too many nested parentheses",
        9,
    )
    assert {file["path"]: file["status"] for file in found["files"]} == {
        "deep.py": "failed",
        "train01.py": "changed",
        "train02.py": "changed",
    }


ORPHAN = """
import os, re, sys, time
from ampify.pipeline.workers import spread

def hang(kind):
    with open(kind, "w") as file:
        file.write(str(os.getpid()))
    if kind == "sleeping":
        time.sleep(600)
    re.match("(a+)+b", "a" * 64)  # with the interpreter in its hand

if __name__ == "__main__":
    # A worker is handed two at once.
    kinds = [kind for kind in sys.argv[1:] for _ in range(2)]
    list(spread(hang, kinds, len(sys.argv) - 1))
"""


@pytest.mark.parametrize("kinds", [("sleeping",), ("computing",), ("sleeping", "computing")], ids="+".join)
def test_a_worker_that_hangs_ends_with_its_killed_parent(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    (tmp_path / "orphan.py").write_text(ORPHAN)
    parent = subprocess.Popen([sys.executable, "orphan.py", *kinds], cwd=tmp_path, env=ENVIRONMENT)
    await_that(lambda: all((tmp_path / kind).is_file() and (tmp_path / kind).read_text() for kind in kinds))
    workers = [int((tmp_path / kind).read_text()) for kind in kinds]
    assert all(is_alive(worker) for worker in workers)
    parent.kill()
    parent.wait()
    try:
        await_that(lambda: not any(is_alive(worker) for worker in workers))
    finally:
        for worker in filter(is_alive, workers):
            os.kill(worker, signal.SIGKILL)


def await_that(holds: Callable[[], bool]) -> None:
    """Waits until something holds; fails if it never does."""
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    pytest.fail("it never came to hold")


def is_alive(process: int) -> bool:
    """Whether a process runs; one that has ended, and nobody asked about, does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"
