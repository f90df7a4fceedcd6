"""Owns the record that this process writes: a JSON object a line, in a file of its own."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from typing import IO, Any

# A process that is killed loses no more than the lines of so many seconds.
FLUSH_SECONDS = 0.5


class Record:
    """The lines of one process; the file is made with the first, so that a process that does not train has none."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._file: IO[str] | None = None
        self._flushed = 0.0
        # The time spent watching, in seconds, to be taken off what a step took.
        self.own_seconds = 0.0
        atexit.register(self.flush)
        os.register_at_fork(before=self.flush, after_in_child=self._forget)

    @property
    def begun(self) -> bool:
        """Whether this process has written a line."""
        return self._file is not None

    def write(self, kind: str, **values: Any) -> None:
        """Adds a line; numbers that are not finite become what JSON in Python reads back."""
        if self._file is None:
            self._file = self._open()
        self._file.write(json.dumps({"kind": kind, **values}) + "\n")
        now = time.monotonic()
        if now - self._flushed > FLUSH_SECONDS:
            self._flushed = now
            self._file.flush()

    def flush(self) -> None:
        """Puts on disk what was written so far."""
        if self._file is not None:
            self._file.flush()

    def _open(self) -> IO[str]:
        name = f"{time.time_ns():020d}-{os.getpid()}.jsonl"
        file = open(os.path.join(self.folder, name), "w", encoding="utf-8")  # noqa: PTH118, PTH123, SIM115
        file.write(json.dumps({"kind": "start", "pid": os.getpid(), "argv": sys.argv, **_rank()}) + "\n")
        return file

    def _forget(self) -> None:
        # The descriptor is the parent's; the buffer is empty, since it was flushed before the fork.
        self._file = None


def _rank() -> dict[str, int]:
    """The rank of this process, as the launcher or torch's process group tells it; 0 if it is alone."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return {"rank": distributed.get_rank(), "world": distributed.get_world_size()}
    return {"rank": int(os.environ.get("RANK", "0")), "world": int(os.environ.get("WORLD_SIZE", "1"))}
