"""A run of `ampify --write` is killed at random moments: every file is old or new, and `ampify undo` makes it whole.

`AMPIFY_KILLS` is the number of kills (8), `AMPIFY_KILL_SEED` the seed that the moments follow from; both are printed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.processes import ENVIRONMENT, TRAIN, command

KILLS = int(os.environ.get("AMPIFY_KILLS", "8"))
SEED = int(os.environ.get("AMPIFY_KILL_SEED", "20240229"))
FILES = 40

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no SIGKILL there")


def make_tree(folder: Path) -> dict[str, bytes]:
    shutil.rmtree(folder, ignore_errors=True)
    for number in range(1, FILES + 1):
        path = folder / f"project{number % 7}" / f"train{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TRAIN.format(number=number))
    (folder / "requirements.txt").write_text("torch\n")
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """All files but those of the journal."""
    found = (path for path in folder.rglob("*") if path.is_file() and ".ampify" not in path.relative_to(folder).parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def started(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("--write", "--no-cache", "-j1", "."),
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for(process: subprocess.Popen[bytes], seen: Callable[[], bool]) -> float:
    """The moment at which `seen` comes true, or the process ends."""
    while process.poll() is None and not seen():
        time.sleep(0.0002)
    return time.monotonic()


def replaced(inodes: Mapping[Path, int]) -> int:
    return sum(path.stat().st_ino != inode for path, inode in inodes.items())


def inodes_of(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_ino for path in folder.rglob("*.py")}


def test_killed_at_random_moments_every_file_is_old_or_new_and_undo_recovers(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    flight = folder / ".ampify/flight"
    old = make_tree(folder)
    inodes = inodes_of(folder)
    begun = time.monotonic()
    process = started(folder)
    writing = wait_for(process, flight.exists)
    replacing = wait_for(process, lambda: replaced(inodes) > 0)
    done = wait_for(process, lambda: replaced(inodes) == FILES)
    assert process.wait() == 0
    new = contents(folder)
    assert set(new) == set(old)
    assert sum(new[name] != old[name] for name in old) == FILES + 1
    moments = random.Random(SEED)
    print(
        f"{KILLS} kills, seed {SEED}; a run: {writing - begun:.3f} s to the write, {replacing - writing:.3f} s to the ",
        end="",
    )
    print(f"first file replaced, {done - replacing:.3f} s to the last")
    tally = {"old": 0, "new": 0, "mixed": 0}
    for number in range(KILLS):
        make_tree(folder)
        inodes = inodes_of(folder)
        process = started(folder)
        # Reading, preparing and replacing each get their share of the kills, however long they take.
        phase = number % 4
        if phase == 0:
            delay = moments.uniform(0, writing - begun)
        elif phase == 1:
            wait_for(process, flight.exists)
            delay = moments.uniform(0, replacing - writing)
        else:
            wait_for(process, lambda inodes=inodes: replaced(inodes) > 0)  # type: ignore[misc]
            delay = moments.uniform(0, (done - replacing) * 1.5)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        tally[_state(folder, old, new, number)] += 1
        undone = subprocess.run(command("undo"), cwd=folder, env=ENVIRONMENT, capture_output=True, check=False)
        assert undone.returncode == 0 or b"no write of ampify is on record" in undone.stderr
        assert contents(folder) == old, f"kill {number} of seed {SEED}"
    print(f"found: {tally}")
    # Whatever was left, the next run does the whole work.
    assert started(folder).wait() == 0
    assert contents(folder) == new


def _state(folder: Path, old: Mapping[str, bytes], new: Mapping[str, bytes], number: int) -> str:
    """Whether all files are old, all new, or some each; no file is anything else."""
    found = {name: content for name, content in contents(folder).items() if ".ampify-" not in name}
    assert set(found) == set(old)
    strange = [name for name in found if found[name] not in (old[name], new[name])]
    assert not strange, f"kill {number} of seed {SEED}: neither old nor new: {strange}"
    return "old" if found == old else "new" if found == new else "mixed"
