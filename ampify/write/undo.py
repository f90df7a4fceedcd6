"""Puts back what a recorded write changed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ampify.write.atomic import remove, replace_content
from ampify.write.failure import NothingToUndo, write_error
from ampify.write.journal import (
    Entry,
    Journal,
    digest,
    discard,
    flight_folder,
    last_folder,
    locate,
    read_copy,
    read_journal,
)

_Fate: TypeAlias = Literal["restored", "removed", "edited", "untouched"]


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of the files: old content restored, new files removed; `edited` were changed since and left alone.

    `interrupted` says that the write put back had not been finished.
    """

    restored: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    edited: tuple[Path, ...] = ()
    interrupted: bool = False


def undo(root: Path) -> Undone:
    """Puts back what the last write under `root` changed, whether it was finished or not.

    Files edited since keep their content and are reported; the record then stays, so that undoing again, once their
    edits are out of the way, does the rest. Raises NothingToUndo, JournalDamaged, OutsideRoot and other WriteErrors.
    """
    root = root.resolve()
    flight, last = flight_folder(root), last_folder(root)
    interrupted = flight.exists()
    folder = flight if interrupted else last
    journal = read_journal(root, folder)
    if journal is None and not interrupted:
        raise NothingToUndo(
            root,
            "no write of ampify is on record here",
            "only the last write can be put back; run it in the folder that was migrated",
        )
    # Without a record the interrupted write had not replaced anything yet.
    undone = put_back(root, journal or Journal(()), folder, interrupted)
    if not undone.edited:
        discard(folder)
    return undone


def put_back(root: Path, journal: Journal, folder: Path, interrupted: bool) -> Undone:
    """Gives every file of `journal`, recorded in `folder`, its old content, where it has the new one now."""
    fates = [(locate(root, entry.path), _put_back(root, entry, folder)) for entry in journal.entries]
    for made in reversed(journal.folders):
        with contextlib.suppress(OSError):
            locate(root, made).rmdir()
    return Undone(_having(fates, "restored"), _having(fates, "removed"), _having(fates, "edited"), interrupted)


def _put_back(root: Path, entry: Entry, folder: Path) -> _Fate:
    target = locate(root, entry.path)
    temporary = target.with_name(entry.temporary)
    remove(temporary)
    present = _digest_of(target)
    if present == entry.before:
        return "untouched"
    if present != entry.after:
        return "edited"
    if entry.before is not None:
        replace_content(target, read_copy(folder, entry), temporary)
        return "restored"
    try:
        target.unlink()
    except OSError as error:
        raise write_error(target, error) from error
    return "removed"


def _digest_of(path: Path) -> str | None:
    # Not `Path.exists`: that raises on names the system does not take.
    if not os.path.lexists(path):
        return None
    try:
        return digest(path.read_bytes())
    except OSError as error:
        raise write_error(path, error) from error


def _having(fates: Sequence[tuple[Path, _Fate]], fate: _Fate) -> tuple[Path, ...]:
    return tuple(path for path, own in fates if own == fate)
