"""Measures, in one run, what `ampify --check` costs on a tree of 4,000 files, against parsing them with LibCST."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tree import FILES, SEED, Tree, write_tree

ROOT = Path(__file__).resolve().parents[1]
TARGET_SECONDS = 5.0
SAMPLE = 0.05
ROUNDS = 3

# Only the parsing is timed, not the interpreter's start nor LibCST's import: that favours LibCST.
PARSE = """
import sys, time
import libcst
sources = [open(path, "rb").read() for path in sys.stdin.read().split("\\0")]
start = time.process_time()
for source in sources:
    libcst.parse_module(source)
print(time.process_time() - start)
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One run of `ampify --check`: CPU seconds of the process and its children, and the training loops it found."""

    seconds: float
    loops: int


@dataclass(frozen=True, slots=True)
class Parse:
    """CPU seconds that LibCST took to parse so many lines."""

    seconds: float
    lines: int


def measure_check(root: Path) -> Check:
    """Check the tree in a new process, as a user would, with nothing cached."""
    command = [sys.executable, "-m", "ampify", "--check", "--no-cache", "--jobs", "1", "--format", "json", "."]
    with tempfile.TemporaryFile() as report, tempfile.TemporaryFile() as messages:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")])}
        child = subprocess.Popen(command, cwd=root, env=environment, stdout=report, stderr=messages)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        report.seek(0)
        found = report.read()
        # 1 is what `--check` answers when something would change, as it would here.
        if child.returncode != 1 or not found:
            messages.seek(0)
            sys.exit(f"ampify --check ended with exit status {child.returncode}:\n{messages.read().decode()}")
    return Check(usage.ru_utime + usage.ru_stime, len(json.loads(found)["loops"]))


def measure_parse(paths: Sequence[Path]) -> Parse:
    """Parse these files with LibCST in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", PARSE],
        input="\0".join(map(str, paths)),
        capture_output=True,
        text=True,
        check=True,
    )
    return Parse(float(done.stdout), sum(path.read_bytes().count(b"\n") for path in paths))


def sample(root: Path, share: float, rounds: int) -> list[list[Path]]:
    """Files spread evenly over the tree, dealt to the rounds."""
    paths = sorted(root.rglob("*.py"))
    chosen = paths[:: max(round(1 / share), 1)]
    return [chosen[number::rounds] for number in range(rounds)]


def report(tree: Tree, checks: Sequence[Check], parses: Sequence[Parse], share: float) -> bool:
    """Print the figures; whether the target is met."""
    check = statistics.median(one.seconds for one in checks)
    seconds, lines = sum(one.seconds for one in parses), sum(one.lines for one in parses)
    whole = seconds * tree.lines / lines
    how = "all of it" if share >= 1 else f"{lines} of its lines, scaled up to all {tree.lines}"
    spread = ", ".join(f"{one.seconds:.2f}" for one in checks)
    print(
        f"tree             {tree.files} files, {tree.lines} lines, {tree.size / 1e6:.1f} MB; {len(tree.training)} train"
    )
    print(f"ampify --check   {check:8.2f} s CPU, median of {spread}; {checks[-1].loops} training loops found")
    print(f"LibCST parse     {whole:8.2f} s CPU ({how}: {seconds:.2f} s measured)")
    print(f"ratio            {whole / check:8.1f}")
    met = check < TARGET_SECONDS or tree.files != FILES
    print(
        f"target           {TARGET_SECONDS:8.2f} s CPU for {FILES} files: "
        + ("met" if check < TARGET_SECONDS else "MISSED")
    )
    return met


def main() -> int:
    """Make the tree, measure both in turn, print; 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=FILES, help="files in the tree (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the tree (default: %(default)s)")
    parser.add_argument("--sample", type=float, default=SAMPLE, help="share LibCST parses (default: %(default)s)")
    parser.add_argument("--all", action="store_true", help="let LibCST parse every file: minutes, and no scaling up")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of both, in turn (default: %(default)s)")
    args = parser.parse_args()
    share = 1.0 if args.all else args.sample
    with tempfile.TemporaryDirectory(prefix="ampify-bench-") as folder:
        root = Path(folder)
        tree = write_tree(root, args.files, args.seed)
        checks: list[Check] = []
        parses: list[Parse] = []
        for paths in sample(root, share, args.rounds):
            checks.append(measure_check(root))
            parses.append(measure_parse(paths))
        missing = len(tree.training) - checks[-1].loops
        if missing > 0:
            sys.exit(
                f"ampify --check found {checks[-1].loops} training loops of {len(tree.training)}: nothing to compare"
            )
        return 0 if report(tree, checks, parses, share) else 1


if __name__ == "__main__":
    sys.exit(main())
