"""Keeps entries in files, by key: written whole or not at all, and ignored where anything about them is odd."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampify.cache.folder import is_own, make_folder

# Beyond so many the oldest go: each is of another tree, or of another state of one.
MOST_ENTRIES = 200
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries in `folder`. Keys are digests in hexadecimal."""

    folder: Path

    def find(self, key: str) -> Any:
        """The data kept under `key`, as JSON has it; None if there is none that can be read."""
        if not is_own(self.folder):
            return None
        try:
            entry = json.loads((self.folder / f"{key}{_SUFFIX}").read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return entry.get("data") if isinstance(entry, dict) and entry.get("key") == key else None

    def keep(self, key: str, data: Any) -> None:
        """Keeps `data`, of types that JSON has. A cache that cannot be written is no reason to stop for."""
        if not make_folder(self.folder):
            return
        with contextlib.suppress(OSError):
            self._put(f"{key}{_SUFFIX}", json.dumps({"key": key, "data": data}, separators=(",", ":")))
            self._drop_oldest()

    def _put(self, name: str, text: str) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix="new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(self.folder / name)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _drop_oldest(self) -> None:
        entries = sorted(self.folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in entries[MOST_ENTRIES:]:
            path.unlink(missing_ok=True)
