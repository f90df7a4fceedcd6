"""Asks git which files hold changes that it has no copy of."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

# A file system monitor is a program that a repository may name: one from strangers must not have its own started.
_GIT: Final = ("git", "-c", "core.fsmonitor=false")
_SECONDS: Final = 20


def uncommitted(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Those of the files that git does not have as they are; none where there is no git, or no repository."""
    by_folder: dict[Path, list[Path]] = defaultdict(list)
    for path in paths:
        by_folder[path.resolve().parent].append(path)
    tops: dict[Path, list[Path]] = defaultdict(list)
    for folder, files in by_folder.items():
        top = _git(folder, "rev-parse", "--show-toplevel").rstrip("\n")
        if top:
            tops[Path(top)] += files
    return tuple(sorted(path for top, files in tops.items() for path in _changed(top, files)))


def _changed(top: Path, files: Iterable[Path]) -> Iterable[Path]:
    by_name = {file.resolve().relative_to(top.resolve()).as_posix(): file for file in files}
    # Of the whole repository: a command line holds only so many names.
    status = _git(top, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
    names = (entry[3:] for entry in status.split("\0") if entry)
    return [by_name[name] for name in names if name in by_name]


def _git(folder: Path, *arguments: str) -> str:
    """What git answers; empty where it does not."""
    # Without the optional locks another git at work there is not disturbed.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    command = [*_GIT, "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout) if done.returncode == 0 else ""
