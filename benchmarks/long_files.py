"""Measures, in one run, what it costs to migrate a long script, one with a huge list, and ones with deep expressions.

Each is set against a bare parse of the same text: with LibCST, or with `ast` where LibCST would take most of a minute.
Processes alternate; imports and a first small script come before the clock starts; CPU seconds include child processes.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fragments import CLASSES, FUNCTIONS, HEADERS
from tree import SEED, fill

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 5
LINES = 1_000
LIST_BYTES = 5_700_000
TERMS = 3_000
CALLS = 1_000

TRAINING = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{code}
for x in torch.ones(4, 8, 4):
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""
# All read the text on standard input and print CPU seconds.
CLOCK = """
import resource, sys, threading
def clock():
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
def measured(work):
    global took
    start = clock()
    work()
    took = clock() - start
"""
# The command, too, has Python look for cycles less often.
MIGRATE = (
    CLOCK
    + """
import gc
gc.set_threshold(1_000_000, 20, 20)
from ampify.model.settings import Settings
from ampify.pipeline import run_text
small, text = sys.argv[1].encode(), sys.stdin.buffer.read()
run_text(small, Settings())
def work():
    report = run_text(text, Settings())
    assert [outcome.status for outcome in report.outcomes] == ["changed"], report.findings
measured(work)
print(took)
"""
)
# In a thread with room on its stack: the deep ones need it.
LIBCST = (
    CLOCK
    + """
import libcst
small, text = sys.argv[1], sys.stdin.read()
libcst.parse_module(small)
sys.setrecursionlimit(100_000)
threading.stack_size(512 * 1024 * 1024)
thread = threading.Thread(target=measured, args=(lambda: libcst.parse_module(text),))
thread.start()
thread.join()
print(took)
"""
)
AST = (
    CLOCK
    + """
import ast
text = sys.stdin.read()
measured(lambda: ast.parse(text))
print(took)
"""
)


@dataclass(frozen=True, slots=True)
class Case:
    """A script, what to set its migration against, and the ratio that is aimed at, if any."""

    name: str
    text: str
    peer: str
    script: str
    most: float | None = None


def long_script(lines: int, seed: int) -> str:
    """A script of so many lines, most of them functions and classes that have nothing to do with training."""
    rng = random.Random(seed)
    parts = [fill(rng, rng.choice(HEADERS))]
    wanted = lines - TRAINING.count("\n") - parts[0].count("\n")
    while (missing := wanted - sum(part.count("\n") for part in parts[1:])) > 0:
        part = "\n\n" + fill(rng, rng.choice(FUNCTIONS + CLASSES)).lstrip("\n")
        parts.append(part if part.count("\n") <= missing else "# filler\n" * missing)
    future, rest = parts[0], "".join(parts[1:])
    return future + TRAINING.format(code=rest)


def long_list(size: int, seed: int) -> str:
    """A list of numbers in lines of ten, `size` bytes long."""
    rng = random.Random(seed)
    numbers = (f"{rng.random():.6f}" for _ in range(size // 10))
    rows = "".join(f"    {', '.join(row)},\n" for row in zip(*[numbers] * 10, strict=False))
    return f"TABLE = [\n{rows}]"


def cases(seed: int) -> tuple[Case, ...]:
    """What is measured."""
    terms = "total = " + " + ".join(f"x{number}" for number in range(TERMS))
    calls = "zeros = torch.zeros(1)" + "".join(f".add({number})" for number in range(CALLS))
    return (
        Case(f"{LINES} lines", long_script(LINES, seed), "LibCST", LIBCST, 3.0),
        Case(f"list of {LIST_BYTES / 1e6:.1f} MB", TRAINING.format(code=long_list(LIST_BYTES, seed)), "ast", AST),
        Case(f"{TERMS} terms", TRAINING.format(code=terms), "LibCST", LIBCST),
        Case(f"{CALLS} chained calls", TRAINING.format(code=calls), "LibCST", LIBCST),
    )


def timed(script: str, text: str) -> float:
    """The CPU seconds that a script prints, run in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", script, TRAINING.format(code="")],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}", "PATH": ""},
    )
    if done.returncode:
        sys.exit(f"a measurement failed:\n{done.stderr}")
    return float(done.stdout)


def report(case: Case, found: Sequence[tuple[float, float]]) -> bool:
    """Print the figures of a case; whether its target, if any, is met."""
    ours, theirs = (statistics.median(side) for side in zip(*found, strict=True))
    ratio = statistics.median(mine / other for mine, other in found)
    spread = ", ".join(f"{mine / other:.2f}" for mine, other in found)
    aim = "" if case.most is None else f"; at most {case.most}: {'met' if ratio <= case.most else 'MISSED'}"
    print(
        f"{case.name:20} ampify {ours:6.2f} s   {case.peer} parse {theirs:6.2f} s   ratio {ratio:.2f} ({spread}){aim}"
    )
    return case.most is None or ratio <= case.most


def main() -> int:
    """Measure all cases; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of both, in turn (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the scripts (default: %(default)s)")
    args = parser.parse_args()
    met = [
        report(case, [(timed(MIGRATE, case.text), timed(case.script, case.text)) for _ in range(args.rounds)])
        for case in cases(args.seed)
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
