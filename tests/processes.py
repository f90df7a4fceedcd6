"""What the tests that start processes of ampify have in common: where it is, the environment, and a script to migrate."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
# Of this checkout, wherever the process runs; what asks for colours, or for none, is for single tests to set.
ENVIRONMENT: Final[Mapping[str, str]] = {
    **{key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")},
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")]),
    "OMP_NUM_THREADS": "1",
}
# Scripts that differ, by `.format(number=...)`.
TRAIN: Final = """\
import torch

model = torch.nn.Linear(4, {number})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).pow(2).mean().backward()
    optimizer.step()
"""


def command(*arguments: str) -> list[str]:
    """The command line of ampify, for `subprocess`."""
    return [sys.executable, "-m", "ampify", *arguments]
