"""Owns what the parent process asks of the watcher: a JSON object in the environment."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

VARIABLE = "AMPIFY_WATCH"


@dataclass(frozen=True, slots=True)
class Orders:
    """How to watch a run.

    `folder` takes the records. `tree` is the copy that runs, `root` the project it was copied from. `steps` ends the
    process after so many optimizer steps (0: never). `seed` is set at the start; `shift` is added to every seed, the
    script's own included. `digest` records a checksum of each parameter at each step. `plain` switches torch's own
    autocast and GradScaler off. `sample` is the step in which precision is sampled (0: none). `find` looks at the
    output of every module for the first value that is not finite.
    """

    folder: str
    tree: str
    root: str
    steps: int = 0
    seed: int = 0
    shift: int = 0
    digest: bool = False
    plain: bool = False
    sample: int = 0
    find: bool = False


def read_orders() -> Orders | None:
    """The orders of this process; None if it is not to be watched."""
    text = os.environ.get(VARIABLE)
    return Orders(**json.loads(text)) if text else None
