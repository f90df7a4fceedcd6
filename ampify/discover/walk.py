"""Finds the Python files and notebooks that the user's paths name, in a fixed order."""

# `os.path` where `pathlib` would raise: on loops of links, and inside folders that may not be entered.
# ruff: noqa: PTH110, PTH113

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ampify.discover.ignoring import Ignoring, Patterns, as_folder, compile_patterns, ignoring_above

SUFFIXES: Final = (".py", ".ipynb")
# Folders that hold no code of the project itself: of version control, tools, and what was installed or built.
SKIPPED_FOLDERS: Final = frozenset(
    {
        ".ampify", ".bzr", ".direnv", ".eggs", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".nox",
        ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".vscode", "CVS", "__pycache__", "__pypackages__", "_darcs",
        "node_modules", "site-packages",
    }
)  # fmt: skip
# Build output by habit, but a package of the project if they hold an `__init__.py`.
BUILD_FOLDERS: Final = frozenset({"_build", "buck-out", "build", "dist"})
# Present in the root of a virtual environment, made by venv and conda respectively.
ENVIRONMENT_MARKS: Final = ("pyvenv.cfg", "conda-meta")
# Our own runtime, copied into a repository by `--vendor`.
VENDORED_RUNTIME: Final = "ampify_runtime"


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found. `files` holds, per file, its real path and the name to show; no file stands there twice.

    `missing` are named paths that do not exist; `unlisted` are folders that could not be listed, and why.
    """

    files: tuple[tuple[Path, str], ...]
    missing: tuple[Path, ...] = ()
    unlisted: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to be listed: its real path, its name to show ("" for the working folder), and what is ignored in it."""

    real: Path
    display: str
    ignoring: Ignoring

    def named(self, name: str) -> str:
        """The name to show for the entry `name`."""
        if self.display in ("", "/"):
            return self.display + name
        return f"{self.display}/{name}"


@dataclass(frozen=True, slots=True)
class _Found:
    """An entry of a walk: a file (`reason` is None), or a folder that could not be listed."""

    real: Path
    display: str
    linked: bool = False
    reason: str | None = None


def discover(paths: Sequence[Path], exclude: Sequence[str] = ()) -> Discovery:
    """The Python files and notebooks that `paths` name, and those in the folders they name.

    A named file is always taken. In folders, `.gitignore` files and `exclude` (patterns in the same language, matched
    against the name to show and against the path below the named folder) rule files out. Links to folders are not
    followed; a link to a file is taken if that lies in the named folder and is not found there itself.
    """
    missing = tuple(path for path in paths if not os.path.exists(path))
    excluded = compile_patterns(exclude)
    found = [entry for path in paths if path not in missing for entry in _named(path, excluded)]
    unlisted = tuple((entry.display, entry.reason) for entry in found if entry.reason is not None)
    return Discovery(_without_duplicates(found), missing, unlisted)


def _without_duplicates(found: Sequence[_Found]) -> tuple[tuple[Path, str], ...]:
    files: dict[Path, str] = {}
    for entry in found:
        if entry.reason is None:
            files.setdefault(entry.real, entry.display)
    return tuple(files.items())


def _named(path: Path, excluded: Patterns) -> Iterator[_Found]:
    real = path.resolve()
    display = "" if path == Path() else path.as_posix()
    if not real.is_dir():
        yield _Found(real, display)
        return
    inside = sorted(_walk(_Folder(real, display, ignoring_above(real)), excluded), key=_order)
    yield from inside


def _order(entry: _Found) -> tuple[bool, list[str]]:
    # Links last: a file is known by its own name where it has one.
    return (entry.linked, entry.display.split("/"))


def _walk(top: _Folder, excluded: Patterns) -> Iterator[_Found]:
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder.real))
        except OSError as error:
            yield _Found(folder.real, folder.display or ".", reason=error.strerror or str(error))
            continue
        here = _Folder(folder.real, folder.display, folder.ignoring.inside(folder.real))
        for entry in entries:
            if _ruled_out(entry, here, top, excluded):
                continue
            real = here.real / entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append(_Folder(real, here.named(entry.name), here.ignoring))
            elif not entry.is_symlink():
                yield _Found(real, here.named(entry.name))
            elif (target := real.resolve()).is_relative_to(top.real):
                yield _Found(target, here.named(entry.name), linked=True)


def _ruled_out(entry: os.DirEntry[str], folder: _Folder, top: _Folder, excluded: Patterns) -> bool:
    is_folder = entry.is_dir(follow_symlinks=False)
    if is_folder and _is_foreign(entry):
        return True
    if not is_folder and not (entry.name.endswith(SUFFIXES) and os.path.isfile(entry)):
        return True
    end = "/" if is_folder else ""
    path = as_folder(folder.real) + entry.name + end
    return bool(
        folder.ignoring.ignores(path)
        or excluded.verdict(folder.named(entry.name) + end)
        or excluded.verdict(path.removeprefix(as_folder(top.real)))
    )


def _is_foreign(folder: os.DirEntry[str]) -> bool:
    """Whether `folder` holds no code of the project."""
    if folder.name in SKIPPED_FOLDERS or folder.name.endswith(".egg-info"):
        return True
    if folder.name in BUILD_FOLDERS:
        return not _holds(folder, "__init__.py")
    if folder.name == VENDORED_RUNTIME:
        return _holds(folder, "amp")
    return any(_holds(folder, mark) for mark in ENVIRONMENT_MARKS)


def _holds(folder: os.DirEntry[str], name: str) -> bool:
    return os.path.exists(f"{folder.path}/{name}")
