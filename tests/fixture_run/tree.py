"""Trees of files as data: read, copied, compared."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TypeAlias

Tree: TypeAlias = dict[str, bytes]

# What a run leaves behind that is no part of the repository: the journal for `ampify undo`, and compiled modules.
LEFT_BEHIND = {".ampify", "__pycache__"}


def read_tree(root: Path) -> Tree:
    """Every file below `root`, by its path with `/`."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    named = ((path.relative_to(root), path) for path in files)
    return {name.as_posix(): path.read_bytes() for name, path in named if LEFT_BEHIND.isdisjoint(name.parts)}


def copy_tree(source: Path, target: Path) -> Path:
    """A copy of `source` at `target`, which must not exist."""
    return Path(shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_BEHIND)))
