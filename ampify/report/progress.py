"""A line on a terminal that shows how far a run is, and is gone when it ends."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from ampify.model.progress import Told, untold

# A run that is over sooner needs no line; and nobody reads more than some lines a second. Both in seconds.
DELAY = 0.5
PAUSE = 0.1
_ERASE = "\r\033[K"


@contextmanager
def progress_line(stream: TextIO, environment: Mapping[str, str], *, quiet: bool = False) -> Iterator[Told]:
    """What to tell of a run's progress; it is shown on `stream` if that is a terminal which can erase a line."""
    if quiet or not stream.isatty() or environment.get("TERM") in (None, "", "dumb"):
        yield untold
        return
    line = Line(stream)
    try:
        yield line.show
    finally:
        line.erase()


@dataclass(slots=True)
class Line:
    """The line on `stream`, and when it was last written; `clock` gives seconds."""

    stream: TextIO
    clock: Callable[[], float] = time.monotonic
    width: Callable[[], int] = lambda: shutil.get_terminal_size().columns
    doing: str = ""
    since: float = 0.0
    last: float | None = None
    begun: float | None = None

    def show(self, doing: str, done: int, total: int, path: str) -> None:
        """Shows count, rate and file, if it is time to."""
        now = self.clock()
        if doing != self.doing:
            self.doing, self.since = doing, now
        # Counted from the first file: what is loaded before is none of the work.
        self.begun = now if self.begun is None else self.begun
        if now - self.begun < DELAY or (self.last is not None and now - self.last < PAUSE):
            return
        rate = f"{done / (now - self.since):.0f}/s" if done and now > self.since else ""
        text = "  ".join(part for part in (f"{doing} {done}/{total}", rate, _printable(path)) if part)
        self.stream.write(f"{_ERASE}{text[: self.width() - 1]}")
        self.stream.flush()
        self.last = now

    def erase(self) -> None:
        """Leaves the terminal as if there had been no line."""
        if self.last is not None:
            self.stream.write(_ERASE)
            self.stream.flush()
            self.last = None


def _printable(path: str) -> str:
    # A file may have any name, an escape sequence as well.
    return "".join(char if char.isprintable() else "?" for char in path)
