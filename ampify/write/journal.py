"""The record of a write: which files it touches, and copies of what they held before.

It lies in `.ampify/` under the root: `flight/` while a write is under way, `last/` once it is done. A folder counts as
a record as soon as it holds `journal.json`, which is written after the copies and before the first file is replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ampify.write.atomic import flush_folder, remove, replace_content
from ampify.write.failure import JournalDamaged, OutsideRoot, UnfinishedCommit, write_error

FOLDER: Final = ".ampify"
_SCHEMA: Final = 1
_RECORD: Final = "journal.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a write. `path` is its real path under the root, with `/` separators.

    `before` and `after` are SHA-256 digests of its content in hexadecimal, `before` None if the file is new; `copy`
    names the copy of the old content; `temporary` is the name the new content has beside the file before it replaces
    it.
    """

    path: str
    before: str | None
    after: str
    copy: str
    temporary: str


@dataclass(frozen=True, slots=True)
class Journal:
    """A whole write: its files, and the folders it makes, outermost first."""

    entries: tuple[Entry, ...]
    folders: tuple[str, ...] = ()


def digest(content: bytes) -> str:
    """What the journal knows a content by."""
    return hashlib.sha256(content).hexdigest()


def flight_folder(root: Path) -> Path:
    """Where the record of a write under way lies."""
    return root / FOLDER / "flight"


def last_folder(root: Path) -> Path:
    """Where the record of the last write that was done lies."""
    return root / FOLDER / "last"


def begin(root: Path) -> None:
    """Claims the right to write under `root`; raises UnfinishedCommit if another write has it, WriteError otherwise."""
    home = root / FOLDER
    flight = flight_folder(root)
    _refuse_link(home)
    try:
        if not home.is_dir():
            home.mkdir()
        if flight.exists():
            hint = "run `ampify undo` to put the files back, unless another ampify is at work here"
            raise UnfinishedCommit(flight, "an earlier write was not finished", hint)
        flight.mkdir()
    except OSError as error:
        raise write_error(home, error) from error
    # The journal is nobody's business but this machine's.
    if not (home / ".gitignore").exists():
        replace_content(home / ".gitignore", b"*\n", home / ".gitignore.new")


def record(root: Path, journal: Journal, copies: Mapping[str, bytes]) -> None:
    """Writes the record of a write that begins, so that it can be put back from now on. Raises WriteError."""
    flight = flight_folder(root)
    for name, content in copies.items():
        replace_content(flight / name, content, flight / f"{name}.new")
    text = json.dumps({"schema": _SCHEMA, **asdict(journal)}, indent=1)
    replace_content(flight / _RECORD, text.encode(), flight / f"{_RECORD}.new")


def finish(root: Path) -> None:
    """Declares the write under way done: its record takes the place of the last one's."""
    last = last_folder(root)
    outdated = last.with_name("outdated")
    shutil.rmtree(outdated, ignore_errors=True)
    try:
        if last.exists():
            last.replace(outdated)
        flight_folder(root).replace(last)
    except OSError as error:
        raise write_error(last, error) from error
    flush_folder(last.parent)
    shutil.rmtree(outdated, ignore_errors=True)


def discard(folder: Path) -> None:
    """Removes a record that is of no more use; the record itself first, so that no half of one is left."""
    remove(folder / _RECORD)
    shutil.rmtree(folder, ignore_errors=True)


def read_journal(root: Path, folder: Path) -> Journal | None:
    """The record in `folder`; None if there is none. Raises JournalDamaged, and OutsideRoot if a path leads out."""
    _refuse_link(root / FOLDER)
    try:
        raw = (folder / _RECORD).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(folder, str(error)) from error
    try:
        journal = _parsed(json.loads(raw))
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(folder, repr(error)) from error
    for path in (*(entry.path for entry in journal.entries), *journal.folders):
        locate(root, path)
    return journal


def read_copy(folder: Path, entry: Entry) -> bytes:
    """The old content of an entry that has one; raises JournalDamaged if it is not what was put there."""
    try:
        content = (folder / entry.copy).read_bytes()
    except OSError as error:
        raise _damaged(folder / entry.copy, str(error)) from error
    if digest(content) != entry.before:
        raise _damaged(folder / entry.copy, "is not the copy that was made")
    return content


def locate(root: Path, path: str) -> Path:
    """The real path of an entry; raises OutsideRoot if it lies elsewhere, whatever a journal may say."""
    target = root / PurePosixPath(path)
    if target.resolve() != target or not target.is_relative_to(root):
        raise OutsideRoot(target, f"is no plain path under {root}", "a journal must not lead there: see who made it")
    return target


def _parsed(data: Any) -> Journal:
    if data["schema"] != _SCHEMA:
        raise ValueError(f"schema {data['schema']!r} is unknown to this version")
    entries = tuple(Entry(**entry) for entry in data["entries"])
    folders = tuple(data["folders"])
    for entry in entries:
        _expect_plain_name(entry.copy)
        _expect_plain_name(entry.temporary)
    if not all(isinstance(path, str) for path in (*folders, *(entry.path for entry in entries))):
        raise ValueError("a path that is no text")
    return Journal(entries, folders)


def _expect_plain_name(name: str) -> None:
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or os.sep in name:
        raise ValueError(f"{name!r} is no file name")


def _refuse_link(home: Path) -> None:
    if home.is_symlink():
        raise _damaged(home, "is a link")


def _damaged(path: Path, reason: str) -> JournalDamaged:
    hint = "put the files back with your version control, then remove the folder .ampify"
    return JournalDamaged(path, f"the journal cannot be used: {reason}", hint)
