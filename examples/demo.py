"""The demonstration: migrates `digits/train.py` with ampify, trains before and after, and compares the two."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from verdict import Run, judge, judge_resumed, read_epochs, table

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = Path("examples", "digits")
SCRIPT = "train.py"


def say(text: str = "") -> None:
    """Print at once, so that our lines and those of child processes keep their order."""
    print(text, flush=True)


def ampify(*args: str, cwd: Path) -> None:
    """Run the real command line; its diff and summary go to the terminal."""
    say(f"$ ampify {' '.join(args)}")
    done = subprocess.run([sys.executable, "-m", "ampify", *args], cwd=cwd, check=False)
    if done.returncode != 0:
        sys.exit(f"demo: ampify ended with exit status {done.returncode}; what it says is above")


def train(folder: Path, checkpoint: str, *args: str, **environment: str) -> Run:
    """Train with the script in `folder`, which leaves `checkpoint` beside it."""
    # One thread, so that equal programs give equal bits on every machine.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AMPIFY_")}
    command = [sys.executable, SCRIPT, "--no-cuda", "--checkpoint", checkpoint, *args]
    done = subprocess.run(
        command,
        cwd=folder,
        env=clean | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"demo: {folder / SCRIPT} ended with exit status {done.returncode}:\n{done.stdout}{done.stderr}")
    return Run(done.stdout, read_epochs(done.stdout), folder / checkpoint)


def prepare(work: Path) -> tuple[Path, Path]:
    """Two fresh copies of the example; the second one migrated."""
    original, migrated = work / "original", work / "migrated"
    for folder in (original, migrated):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in (SCRIPT, "requirements.txt"):
            shutil.copy(ROOT / EXAMPLE / name, folder / name)
    ampify(SCRIPT, "--write", cwd=migrated)
    return original, migrated


def main() -> int:
    """Run the demonstration; 0 if every criterion is met, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5, help="epochs to train (default: 5)")
    parser.add_argument("--work", type=Path, default=ROOT / ".demo", help="folder to work in (default: .demo)")
    args = parser.parse_args()

    say("1. What ampify would change (a dry run: nothing is written)\n")
    ampify(str(EXAMPLE / SCRIPT), cwd=ROOT)
    say(f"\n2. The same for a copy in {args.work / 'migrated'}, written\n")
    original, migrated = prepare(args.work.resolve())

    say(f"\n3. Training both, {args.epochs} epochs on the CPU\n")
    epochs = ("--epochs", str(args.epochs))
    before = train(original, "last.pt", *epochs)
    plain = train(migrated, "last-O0.pt", *epochs, AMPIFY_OPT_LEVEL="O0")
    reduced = train(migrated, "last-bfloat16.pt", *epochs, AMPIFY_DTYPE="bfloat16")
    say(table({"original": before, "migrated, O0": plain, "migrated, bfloat16": reduced}))

    say("\n4. Two more epochs, all three from the checkpoint that the original script left\n")
    more = ("--epochs", str(args.epochs + 2), "--resume", str(before.checkpoint))
    resumed = train(original, "resumed.pt", *more)
    resumed_plain = train(migrated, "resumed-O0.pt", *more, AMPIFY_OPT_LEVEL="O0")
    resumed_reduced = train(migrated, "resumed-bfloat16.pt", *more, AMPIFY_DTYPE="bfloat16")
    say(table({"original": resumed, "migrated, O0": resumed_plain, "migrated, bfloat16": resumed_reduced}))

    checks = judge(before, plain, reduced) + judge_resumed(resumed, resumed_plain, resumed_reduced)
    say("\n5. Verdict\n")
    for check in checks:
        say(f"  {'yes' if check.met else 'NO '}  {check.demand}")
    passed = all(check.met for check in checks)
    say("\nThe migrated script trains as the original does." if passed else "\nThe migrated script does NOT hold up.")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
