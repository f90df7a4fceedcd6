"""Replaces a set of files, all of them or none."""

# `os.path` where `pathlib` would raise: on names the system does not take.
# ruff: noqa: PTH110

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ampify.write.atomic import move_over, write_beside
from ampify.write.failure import NotWritable, OutsideRoot, StaleFile, UnfinishedCommit, WriteError, write_error
from ampify.write.journal import Entry, Journal, begin, digest, discard, finish, flight_folder, record
from ampify.write.lock import lock_on
from ampify.write.undo import put_back


@dataclass(frozen=True, slots=True)
class Change:
    """A file's new content. `before` is what it held when it was read, None for a file that is to be created."""

    path: Path
    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class Committed:
    """The files that were written, in the order of the changes, as the changes name them."""

    changed: tuple[Path, ...] = ()
    created: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """A change, the real file it is for, and its line in the journal."""

    change: Change
    target: Path
    entry: Entry


def commit(root: Path, changes: Sequence[Change]) -> Committed:
    """Writes `changes`, all of them or none, with a record under `root` for `undo`. All files must lie under `root`.

    Each file has its old or its new content at every moment, also if the process is killed. A link stays a link, and
    its target is replaced; modes are kept. Raises StaleFile, NotWritable, DiskFull, OutsideRoot, UnfinishedCommit;
    then, and on an interrupt, what was written is put back.
    """
    root = root.resolve()
    token = secrets.token_hex(4)
    needed = [change for change in changes if change.before != change.after]
    steps = [_step(root, change, f"{token}-{number}") for number, change in enumerate(needed)]
    _refuse_twins(steps)
    if not steps:
        return Committed()
    journal = Journal(tuple(step.entry for step in steps), tuple(_missing_folders(root, steps)))
    begin(root)
    try:
        record(root, journal, {step.entry.copy: step.change.before for step in steps if step.change.before is not None})
        _write(root, journal, steps)
    except BaseException as problem:
        _roll_back(root, journal, problem)
        raise
    finish(root)
    return Committed(
        tuple(step.change.path for step in steps if step.change.before is not None),
        tuple(step.change.path for step in steps if step.change.before is None),
    )


def _step(root: Path, change: Change, mark: str) -> _Step:
    target = change.path.resolve()
    if not target.is_relative_to(root):
        raise OutsideRoot(change.path, f"lies outside {root}", "run ampify from a folder that holds all the files")
    _refuse_stale(change, target)
    _refuse_locked(change, target)
    before = None if change.before is None else digest(change.before)
    path = target.relative_to(root).as_posix()
    return _Step(change, target, Entry(path, before, digest(change.after), f"copy-{mark}", f".ampify-{mark}"))


def _refuse_twins(steps: Sequence[_Step]) -> None:
    seen: set[Path] = set()
    for step in steps:
        if step.target in seen:
            raise NotWritable(step.change.path, "would be written twice in one run", "name each file once")
        seen.add(step.target)


def _refuse_stale(change: Change, target: Path) -> None:
    hint = "run ampify again"
    if change.before is None:
        if os.path.lexists(change.path):
            raise StaleFile(change.path, "was to be created, but is there already", hint)
        return
    try:
        present = target.read_bytes()
    except FileNotFoundError as error:
        raise StaleFile(change.path, "is gone since it was read", hint) from error
    except OSError as error:
        raise write_error(change.path, error) from error
    if present != change.before:
        raise StaleFile(change.path, "has changed since it was read", hint)


def _refuse_locked(change: Change, target: Path) -> None:
    lock = lock_on(target)
    if lock is not None:
        raise NotWritable(change.path, lock.reason, lock.hint)


def _missing_folders(root: Path, steps: Sequence[_Step]) -> Iterator[str]:
    seen: set[Path] = set()
    for step in steps:
        for folder in reversed(step.target.parents):
            if folder not in seen and not os.path.exists(folder):
                seen.add(folder)
                yield folder.relative_to(root).as_posix()


def _write(root: Path, journal: Journal, steps: Sequence[_Step]) -> None:
    # All new content is on disk before the first file is replaced: a full disk shows early.
    for folder in journal.folders:
        _make_folder(root / folder)
    for step in steps:
        write_beside(step.target, step.change.after, step.target.with_name(step.entry.temporary))
    for step in steps:
        _refuse_stale(step.change, step.target)
        move_over(step.target.with_name(step.entry.temporary), step.target)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from error


def _roll_back(root: Path, journal: Journal, problem: BaseException) -> None:
    flight = flight_folder(root)
    try:
        put_back(root, journal, flight, interrupted=True)
        discard(flight)
    except (WriteError, OSError) as error:
        hint = "some files are new, some old: run `ampify undo` once the cause is removed"
        reason = f"writing failed ({problem}), and so did putting the files back ({error})"
        raise UnfinishedCommit(root, reason, hint) from problem
