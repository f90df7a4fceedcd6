"""The verdict on two trainings: what a run printed and left, and whether a second run holds up against a first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import torch

# What counts as "the same training" in bfloat16, which keeps 8 significant bits where float32 keeps 24.
LOSS_TOLERANCE = 0.15
LOSS_FLOOR = 0.02
ACCURACY_LOSS = 2.0
ACCURACY_WANTED = 95.0

BATCH_LINE = re.compile(r"Train Epoch: \d+ \[.*\]\tLoss: (\S+)")
EPOCH_LINE = re.compile(r"====> Epoch: (\d+) Average loss: (\S+)")
TEST_LINE = re.compile(r"Test set: Average loss: (\S+), Accuracy: \d+/\d+ \((\S+)%\)")


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one epoch printed: mean training loss, mean test loss, test accuracy in percent."""

    number: int
    train_loss: float
    test_loss: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Run:
    """One training run: all it printed, what that says of each epoch, and the checkpoint it left."""

    output: str
    epochs: tuple[Epoch, ...]
    checkpoint: Path

    @property
    def batch_losses(self) -> tuple[str, ...]:
        """Losses of single batches, as printed."""
        return tuple(BATCH_LINE.findall(self.output))

    @property
    def results(self) -> str:
        """What was printed, less the line that names the checkpoint."""
        return "\n".join(line for line in self.output.splitlines() if not line.startswith("Resumed from"))


@dataclass(frozen=True, slots=True)
class Check:
    """One criterion of the verdict: what is demanded, and whether it was met."""

    demand: str
    met: bool


def read_epochs(output: str) -> tuple[Epoch, ...]:
    """The epochs a run printed; ValueError if an epoch lacks its test line."""
    trained = EPOCH_LINE.findall(output)
    tested = TEST_LINE.findall(output)
    return tuple(
        Epoch(int(number), float(loss), float(test_loss), float(accuracy))
        for (number, loss), (test_loss, accuracy) in zip(trained, tested, strict=True)
    )


def close(before: Run, after: Run) -> bool:
    """Whether the mean losses of two runs follow each other, epoch by epoch."""
    pairs = list(zip(before.epochs, after.epochs, strict=False))
    return len(before.epochs) == len(after.epochs) > 0 and all(
        abs(a.train_loss - b.train_loss) <= max(LOSS_TOLERANCE * b.train_loss, LOSS_FLOOR) for b, a in pairs
    )


def differ(before: Run, after: Run) -> bool:
    """Whether any loss of a single batch differs between two runs of equally many."""
    return len(before.batch_losses) == len(after.batch_losses) and before.batch_losses != after.batch_losses


def as_accurate(before: Run, after: Run) -> bool:
    """Whether the second run ends accurate, and no worse than the first."""
    if not before.epochs or not after.epochs:
        return False
    last, wanted = after.epochs[-1].accuracy, before.epochs[-1].accuracy
    return last >= ACCURACY_WANTED and wanted - last <= ACCURACY_LOSS


def identical(before: Run, after: Run) -> bool:
    """Whether two runs printed the same and left the same weights and optimizer state, bit for bit."""
    return bool(before.epochs) and before.results == after.results and same_state(before.checkpoint, after.checkpoint)


def same_state(before: Path, after: Path) -> bool:
    """Whether two checkpoints agree bit for bit in all that the first one holds."""

    def equal(a: object, b: object) -> bool:
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return a.dtype == b.dtype and torch.equal(a, b)
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
        if isinstance(a, list | tuple) and isinstance(b, list | tuple):
            return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
        return type(a) is type(b) and a == b

    first = torch.load(before, weights_only=True)
    second = torch.load(after, weights_only=True)
    return all(key in second and equal(first[key], second[key]) for key in first)


def judge(original: Run, plain: Run, reduced: Run) -> tuple[Check, ...]:
    """The criteria for the three runs from scratch."""
    return (
        Check(
            "O0: prints what the original prints; same weights and optimizer state, bit for bit",
            identical(original, plain),
        ),
        Check(
            "bfloat16: losses of single batches do differ, so reduced precision is in use", differ(original, reduced)
        ),
        Check(
            f"bfloat16: each epoch's loss within {LOSS_TOLERANCE:.0%} or {LOSS_FLOOR} of the original's",
            close(original, reduced),
        ),
        Check(
            f"bfloat16: ends at {ACCURACY_WANTED:g} % or more, at most {ACCURACY_LOSS:g} points below the original",
            as_accurate(original, reduced),
        ),
    )


def judge_resumed(original: Run, plain: Run, reduced: Run) -> tuple[Check, ...]:
    """The criteria for the three runs that go on from a checkpoint of the original script."""
    return (
        Check("O0, resumed: the same as the original, resumed, bit for bit", identical(original, plain)),
        Check("bfloat16, resumed: losses within the same bounds", close(original, reduced)),
        Check("bfloat16, resumed: accuracy within the same bounds", as_accurate(original, reduced)),
    )


def table(columns: dict[str, Run]) -> str:
    """Losses and accuracies of several runs, an epoch a line."""
    lines = [
        " " * 6 + "".join(f"{name:>33}" for name in columns),
        " epoch" + "".join(f"{'loss':>11}{'test loss':>11}{'accuracy':>11}" for _ in columns),
    ]
    for rows in zip(*(run.epochs for run in columns.values()), strict=False):
        cells = (f"{row.train_loss:>11.4f}{row.test_loss:>11.4f}{row.accuracy:>9.2f} %" for row in rows)
        lines.append(f"{rows[0].number:>6}" + "".join(cells))
    return "\n".join(lines)
