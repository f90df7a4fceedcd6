"""Where a line of a file can be seen in a browser."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass, field
from urllib.parse import quote

from ampify.report.places import Places


@dataclass(frozen=True, slots=True)
class Links:
    """Makes links to lines. `base` is the address of the repository's files at one commit, with a final slash; without
    one the links are relative. `top` is the repository's folder and `folder` that of the run, both absolute; `places`
    are those of the run."""

    base: str = ""
    top: str = ""
    folder: str = ""
    places: Places = field(default_factory=Places)

    def line(self, path: str, line: int, last: int | None = None) -> str | None:
        """The address of a line, or of several; None for what is in no file of the repository."""
        if path.startswith("<"):
            return None
        fragment = f"#L{line}" if last is None or last <= line else f"#L{line}-L{last}"
        if path in self.places.notebooks:
            fragment = ""
        relative = self._within(path)
        return None if relative is None else f"{self.base}{quote(os.fsencode(relative))}{fragment}"

    def _within(self, path: str) -> str | None:
        if not self.base:
            return None if path.startswith("/") else posixpath.normpath(path)
        relative = posixpath.relpath(posixpath.join(self.folder, path), self.top)
        return None if relative.startswith("..") else relative
