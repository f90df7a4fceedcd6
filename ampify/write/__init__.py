"""Puts changed files on disk, all or none, and takes the last change back."""

from ampify.write.commit import Change, Committed, commit
from ampify.write.failure import (
    DiskFull,
    JournalDamaged,
    NothingToUndo,
    NotWritable,
    OutsideRoot,
    StaleFile,
    UnfinishedCommit,
    WriteError,
)
from ampify.write.lock import Lock, lock_on
from ampify.write.report import put_report, require_place
from ampify.write.uncommitted import uncommitted
from ampify.write.undo import IfEdited, Undone, undo

__all__ = [
    "Change",
    "Committed",
    "DiskFull",
    "IfEdited",
    "JournalDamaged",
    "Lock",
    "NotWritable",
    "NothingToUndo",
    "OutsideRoot",
    "StaleFile",
    "Undone",
    "UnfinishedCommit",
    "WriteError",
    "commit",
    "lock_on",
    "put_report",
    "require_place",
    "uncommitted",
    "undo",
]
