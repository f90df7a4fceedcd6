"""What keeps files from being written or put back, as typed errors that name the file and what to do."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

_FULL: Final = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


class WriteError(Exception):
    """A file that could not be written; every file is as it was before, unless `hint` says otherwise."""

    def __init__(self, path: Path, reason: str, hint: str) -> None:
        super().__init__(path, reason, hint)
        self.path = path
        self.reason = reason
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} ({self.hint})"


class StaleFile(WriteError):
    """The file is not, or no longer, what it was when it was read."""


class NotWritable(WriteError):
    """The file or its folder is read-only, or writing failed in some other way."""


class DiskFull(WriteError):
    """There is no room for the new content: disk, quota or file size limit."""


class OutsideRoot(WriteError):
    """The file lies outside the folder that the journal speaks for."""


class UnfinishedCommit(WriteError):
    """An earlier write was interrupted, or another one is under way."""


class JournalDamaged(WriteError):
    """The journal cannot be read, so that what it recorded cannot be put back."""


class NothingToUndo(WriteError):
    """No write is on record."""


def write_error(path: Path, error: OSError) -> WriteError:
    """The typed error for an OSError met while `path` was written."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFull(path, f"no room to write it: {reason}", "free some space and run ampify again")
    return NotWritable(path, f"cannot be written: {reason}", "check the permissions of the file and of its folder")
