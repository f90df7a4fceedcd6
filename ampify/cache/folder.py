"""Where the cache lies: in the user's own cache folder, never in a project.

A project's folder comes from elsewhere, and so might a cache inside it; the user's own folder holds only what this
user's runs have put there.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "AMPIFY_CACHE_DIR"
# Below the folder of ampify, where the runtime keeps its compiled kernels as well.
RUNS = "runs"
TAG = "CACHEDIR.TAG"
# The first line is the one that backup programs look for: https://bford.info/cachedir/
_TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by ampify; it can be removed at any time.\n"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder for the cache, which may not be there yet; None if the user has no home."""
    if chosen := environment.get(VARIABLE):
        return Path(chosen)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "ampify" / "Cache" / RUNS
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "ampify" / RUNS
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "ampify" / RUNS


def is_own(folder: Path) -> bool:
    """Whether `folder` is there, is this user's, and can be written by nobody else."""
    try:
        state = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(state.st_mode):
        return False
    return not hasattr(os, "getuid") or (state.st_uid == os.getuid() and not state.st_mode & _OTHERS_WRITE)


def make_folder(folder: Path) -> bool:
    """Makes `folder`, for this user alone, marked as a cache for backup programs and git; whether it can be used."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_own(folder) and not (folder / TAG).exists():
            (folder / ".gitignore").write_text("*\n", "utf-8")
            (folder / TAG).write_text(_TAG_TEXT, "utf-8")
    except OSError:
        return False
    return is_own(folder)
