"""Owns where in the script something was called."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType


class Places:
    """Tells the line of the project's own code that a call came from."""

    def __init__(self, tree: str) -> None:
        self.prefix = os.path.realpath(tree) + os.sep
        self._known: dict[str, str] = {}

    def here(self) -> str:
        """`path:line` of the innermost frame inside the copy, the path relative to it; empty if there is none."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            path = self.within(frame.f_code.co_filename)
            if path:
                return f"{path}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    def within(self, filename: str) -> str:
        """The path of a file of the copy, relative to it; empty for any other file."""
        path = self._known.get(filename)
        if path is None:
            real = os.path.realpath(filename)
            ours = real.startswith(self.prefix) and "ampify_runtime" not in Path(real).parts
            path = self._known[filename] = real[len(self.prefix) :] if ours else ""
        return path
