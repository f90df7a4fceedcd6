"""Measures, in one run, checks of large libraries: against reading and parsing all files, against LibCST, and twice."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The least that any tool has to do: read every file, search its bytes, and parse those that may train.
SEARCH = """
import ast, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
CALLS = (b"backward", b".step(", b"zero_grad", b"training_step", b"Trainer")
start = time.process_time()
for path in Path().rglob("*.py"):
    content = path.read_bytes()
    if b"torch" in content and any(call in content for call in CALLS):
        try:
            ast.parse(content)
        except (SyntaxError, ValueError):
            pass
print(time.process_time() - start)
"""
NO_OP = """
import sys, time
from libcst.codemod import CodemodContext, VisitorBasedCodemodCommand, transform_module
class NoOp(VisitorBasedCodemodCommand):
    DESCRIPTION = "changes nothing"
texts = [open(path, encoding="utf-8").read() for path in sys.stdin.read().split("\\0")]
start = time.process_time()
for text in texts:
    transform_module(NoOp(CodemodContext()), text)
print(time.process_time() - start)
"""


@dataclass(frozen=True, slots=True)
class Round:
    """CPU seconds of one round: of the search, the first and the second check, and the codemod on so many bytes."""

    search: float
    first: float
    second: float
    codemod: float
    sampled: int


def check(root: Path, cache: str) -> float:
    """CPU seconds of one `ampify --check`, start and children included."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")]),
        "AMPIFY_CACHE_DIR": cache,
    }
    command = [sys.executable, "-m", "ampify", "--check", "--jobs", "1", "--format", "json", "."]
    with tempfile.TemporaryFile() as messages:
        child = subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.DEVNULL, stderr=messages)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 1):
            messages.seek(0)
            sys.exit(f"ampify --check ended with exit status {child.returncode}:\n{messages.read().decode()}")
    return usage.ru_utime + usage.ru_stime


def timed(script: str, root: Path, given: str = "") -> float:
    """The CPU seconds that a script prints, run in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, input=given, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def rounds(root: Path, count: int, step: int) -> Iterator[Round]:
    """All measurements in turn, `count` times; every `step`-th file is for the codemod, dealt to the rounds."""
    chosen = sorted(path for path in root.rglob("*.py") if path.stat().st_size)[::step]
    for number in range(count):
        paths = chosen[number::count]
        with tempfile.TemporaryDirectory(prefix="ampify-bench-") as cache:
            yield Round(
                search=timed(SEARCH, root),
                first=check(root, cache),
                second=check(root, cache),
                codemod=timed(NO_OP, root, "\0".join(map(str, paths))),
                sampled=sum(path.stat().st_size for path in paths),
            )


def report(root: Path, done: Sequence[Round]) -> bool:
    """Print the figures; whether all targets are met."""
    sizes = [path.stat().st_size for path in root.rglob("*.py")]
    search, first, second = (
        statistics.median(getattr(one, name) for one in done) for name in ("search", "first", "second")
    )
    codemod = sum(one.codemod for one in done) * sum(sizes) / sum(one.sampled for one in done)
    print(f"tree                 {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB; {len(done)} rounds, CPU seconds")
    print(f"read, search, parse  {search:8.2f}")
    print(f"ampify, first run    {first:8.2f}")
    print(f"ampify, second run   {second:8.2f}")
    print(f"LibCST, no-op        {codemod:8.2f} (scaled up from {sum(one.sampled for one in done) / 1e6:.2f} MB)")
    ratios = (
        ("first run to search", first / search, 1.3),
        ("first run to LibCST", first / codemod, 0.01),
        ("second run to first", second / first, 0.5),
    )
    for name, ratio, most in ratios:
        print(f"{name:20} {ratio:8.3f}   at most {most}: {'met' if ratio <= most else 'MISSED'}")
    return all(ratio <= most for _, ratio, most in ratios)


def main() -> int:
    """Measure the tree that is named; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, help="a folder with the unpacked libraries, such as transformers and timm")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all, in turn (default: %(default)s)")
    parser.add_argument("--step", type=int, default=50, help="LibCST gets one file in so many (default: %(default)s)")
    args = parser.parse_args()
    root = args.tree.resolve()
    if not any(root.rglob("*.py")):
        sys.exit(f"{args.tree}: there is no Python file in it; unpack the libraries there first")
    return 0 if report(root, list(rounds(root, args.rounds, args.step))) else 1


if __name__ == "__main__":
    sys.exit(main())
