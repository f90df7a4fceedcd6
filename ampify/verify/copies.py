"""Copies a project to where it can be run: code and small files for real, data as links to the user's files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ampify.discover.walk import ENVIRONMENT_MARKS, SKIPPED_FOLDERS

CODE_SUFFIXES: Final = frozenset(
    """.bash .bat .cc .cfg .conf .cpp .cu .cuh .gin .h .hpp .hydra .ini .ipynb .j2 .json .jsonl .jsonnet .lock .md
    .proto .py .pyi .pyx .rst .sh .toml .txt .xml .yaml .yml""".split()
)
# A larger file is data, whatever it is called: it is linked.
LARGEST_COPIED: Final = 1 << 20
# A folder of more files than these that are not code is a data set: they are linked one by one, and of more than
# MOST_LINKS the folder is linked as a whole.
MOST_COPIED: Final = 256
MOST_LINKS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Copied:
    """What was put in place: numbers of files copied and linked, and the folders linked as a whole."""

    files: int
    links: int
    folders: tuple[str, ...]


@dataclass(slots=True)
class _Project:
    root: Path
    target: Path
    files: int = 0
    links: int = 0


def copy_project(root: Path, target: Path) -> Copied:
    """Copies `root` to `target`, which must not exist.

    Only through a link could the copy's user write to the original; the watcher sees to links.
    """
    project = _Project(root.resolve(), target.resolve())
    folders = tuple(sorted(_copy_folder(project.root, project.target, project)))
    return Copied(project.files, project.links, folders)


def copy_copy(source: Path, target: Path) -> None:
    """A copy of a copy: files are copied, links stay the links they are."""
    shutil.copytree(source, target, symlinks=True)


def _copy_folder(folder: Path, target: Path, project: _Project) -> Iterator[str]:
    entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    data = sum(1 for entry in entries if entry.is_file() and not _is_code(entry))
    if data > MOST_LINKS:
        target.symlink_to(folder, target_is_directory=True)
        project.links += 1
        yield str(folder)
        return
    target.mkdir(parents=True)
    for entry in entries:
        place = target / entry.name
        if entry.is_dir():
            yield from _copy_subfolder(entry, place, project)
        elif entry.is_file():
            _put_file(entry, place, project, few=data <= MOST_COPIED)


def _copy_subfolder(entry: os.DirEntry[str], place: Path, project: _Project) -> Iterator[str]:
    real = Path(entry.path).resolve()
    if entry.name in SKIPPED_FOLDERS or any((real / mark).exists() for mark in ENVIRONMENT_MARKS):
        return
    # The copy may be made below what it is a copy of.
    if project.target.is_relative_to(real):
        return
    if not entry.is_symlink():
        yield from _copy_folder(Path(entry.path), place, project)
    elif real.is_relative_to(project.root):
        place.symlink_to(project.target / real.relative_to(project.root), target_is_directory=True)
    else:
        place.symlink_to(real, target_is_directory=True)
        project.links += 1
        yield str(real)


def _put_file(entry: os.DirEntry[str], place: Path, project: _Project, *, few: bool) -> None:
    if _is_code(entry) or (few and entry.stat().st_size <= LARGEST_COPIED):
        shutil.copy2(entry.path, place)
        # A read-only file of the user's must not stand in the way of the migration.
        place.chmod(place.stat().st_mode | 0o200)
        project.files += 1
    else:
        place.symlink_to(Path(entry.path).resolve())
        project.links += 1


def _is_code(entry: os.DirEntry[str]) -> bool:
    suffix = Path(entry.name).suffix.lower()
    return suffix in CODE_SUFFIXES and entry.stat().st_size <= LARGEST_COPIED
