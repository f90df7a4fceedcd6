"""Starts a script once per device of this machine: `python -m ampify_runtime.parallel.multiproc train.py ...`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch


def main(words: Sequence[str]) -> int:
    """Run the command `words` in as many processes as `--world-size` in it says, or as there are CUDA devices.

    Each gets `--world-size` and its `--rank`; output of those after the first goes to `GPU_<rank>.log`. Returns the
    first exit status that is not 0, or 0.
    """
    words = list(words)
    if "--world-size" not in words:
        words += ["--world-size", str(torch.cuda.device_count())]
    world_size = int(words[words.index("--world-size") + 1])
    with ExitStack() as logs:
        workers = []
        for rank in range(world_size):
            output = logs.enter_context(Path(f"GPU_{rank}.log").open("w")) if rank else None
            workers.append(subprocess.Popen([sys.executable, *_with_rank(words, rank)], stdout=output))
        statuses = [worker.wait() for worker in workers]
    return next((status for status in statuses if status), 0)


def _with_rank(words: list[str], rank: int) -> list[str]:
    if "--rank" not in words:
        return [*words, "--rank", str(rank)]
    place = words.index("--rank") + 1
    return [*words[:place], str(rank), *words[place + 1 :]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
