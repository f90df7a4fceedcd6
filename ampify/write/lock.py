"""Whether a file may be replaced, asked before anything is written."""

# `os.path` where `pathlib` would raise: on names the system does not take.
# ruff: noqa: PTH110

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ANY_WRITE_PERMISSION: Final = 0o222
_HINT: Final = "give yourself write permission"


@dataclass(frozen=True, slots=True)
class Lock:
    """Why a file may not be replaced, and what to do about it."""

    reason: str
    hint: str


def lock_on(path: Path) -> Lock | None:
    """What forbids replacing the file at `path`, through a link if that is one, or creating it; None if nothing."""
    target = path.resolve()
    folder = next(place for place in target.parents if os.path.exists(place))
    if not os.access(folder, os.W_OK):
        return Lock(f"its folder {folder} is read-only", _HINT)
    if not os.path.exists(target):
        return None
    facts = target.stat()
    # The superuser may write anything, and renaming over a read-only file works for all: but somebody locked it.
    if not facts.st_mode & _ANY_WRITE_PERMISSION or not os.access(target, os.W_OK):
        return Lock("is read-only", _HINT)
    # A rename would part them: one name with the new content, and the others, unseen, with the old.
    if facts.st_nlink > 1:
        return Lock(
            f"has {facts.st_nlink} names (hard links), of which only one would change", "make it a file of its own"
        )
    return None
