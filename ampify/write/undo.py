"""Puts back what a recorded write changed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Final, Literal, TypeAlias

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
from ampify.write.keeping import Kept, kept_copies

# What to do where a file was edited since: leave everything, leave that file, or lose the edits.
IfEdited: TypeAlias = Literal["refuse", "keep", "overwrite"]
_Fate: TypeAlias = Literal["restored", "removed", "edited", "untouched"]
_FATES: Final[tuple[_Fate, ...]] = ("restored", "removed", "edited")


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of the files: old content restored, new files removed; `edited` were changed since and left alone,
    and for their sake `kept` were.

    `refused` says that for their sake no file was put back; `interrupted`, that the write put back had not been
    finished.
    """

    restored: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    edited: tuple[Path, ...] = ()
    kept: tuple[Kept, ...] = ()
    refused: bool = False
    interrupted: bool = False


def undo(root: Path, if_edited: IfEdited = "refuse") -> Undone:
    """Puts back what the last write under `root` changed, whether it was finished or not.

    Where a file was edited since, nothing of a finished write is put back, unless `if_edited` asks to `keep` that file
    as it is, with a copy of the runtime that it refers to (the record then stays, so that undoing again, once the edits
    are out of the way, does the rest), or to `overwrite` it. Raises NothingToUndo, JournalDamaged, OutsideRoot and
    other WriteErrors.
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
    journal = journal or Journal(())
    places = [(locate(root, entry.path), entry) for entry in journal.entries]
    edited = tuple(path for path, entry in places if _digest_of(path) not in (entry.before, entry.after))
    # Of an interrupted write the tree holds a half already: what can be put back is.
    if edited and if_edited == "refuse" and not interrupted:
        return Undone(edited=edited, refused=True)
    overwriting = if_edited == "overwrite"
    kept = () if overwriting else kept_copies(root, journal, edited)
    undone = put_back(root, journal, folder, interrupted=interrupted, overwriting=overwriting, kept=kept)
    if not undone.edited:
        discard(folder)
    return undone


def put_back(
    root: Path,
    journal: Journal,
    folder: Path,
    *,
    interrupted: bool = False,
    overwriting: bool = False,
    kept: tuple[Kept, ...] = (),
) -> Undone:
    """Gives every file of `journal`, recorded in `folder`, its old content, where it has the new one now; when
    `overwriting`, whatever it has. New files in folders that are `kept` stay."""
    entries = [entry for entry in journal.entries if not _stays(locate(root, entry.path), entry, kept)]
    fates = [(locate(root, e.path), _put_back(root, e, folder, overwriting=overwriting)) for e in entries]
    for made in reversed(journal.folders):
        with contextlib.suppress(OSError):
            locate(root, made).rmdir()
    restored, removed, edited = (_having(fates, fate) for fate in _FATES)
    return Undone(restored, removed, edited, kept, interrupted=interrupted)


def _stays(path: Path, entry: Entry, kept: tuple[Kept, ...]) -> bool:
    return entry.before is None and any(path.is_relative_to(one.folder) for one in kept)


def _put_back(root: Path, entry: Entry, folder: Path, *, overwriting: bool) -> _Fate:
    target = locate(root, entry.path)
    temporary = target.with_name(entry.temporary)
    remove(temporary)
    present = _digest_of(target)
    if present == entry.before:
        return "untouched"
    if present != entry.after and not overwriting:
        return "edited"
    if entry.before is not None:
        replace_content(target, read_copy(folder, entry), temporary)
        return "restored"
    try:
        target.unlink()
    except OSError as error:
        raise write_error(target, error) from error
    _remove_bytecode(target)
    return "removed"


def _remove_bytecode(path: Path) -> None:
    """Removes what Python compiled of a file that is gone, and would keep its folder from going."""
    folder = path.parent / "__pycache__"
    if path.suffix != ".py" or folder.is_symlink():
        return
    for compiled in folder.glob(f"{escape(path.stem)}.*.pyc"):
        remove(compiled)
    with contextlib.suppress(OSError):
        folder.rmdir()


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
