"""Tells what became of each file that `ampify undo` was to put back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import commonpath
from pathlib import Path
from typing import Final

# A copy of the runtime has more than a hundred files: so many are told of one by one, and no more.
MOST_TOLD: Final = 10


def undone_lines(
    restored: Sequence[Path],
    removed: Sequence[Path],
    edited: Sequence[Path],
    kept: Sequence[tuple[Path, Sequence[Path]]] = (),
    *,
    refused: bool,
    here: Path,
) -> Iterator[str]:
    """A line for each file, or one for many in a folder, by paths relative to `here` where they lie below it.

    Each of the folders `kept` comes with the files for whose sake it was.
    """
    alone = "edited since:" if refused else "edited since, left alone:"
    for said, paths in (("put back", restored), ("removed", removed), (alone, edited)):
        if len(paths) > MOST_TOLD and said == "removed":
            yield f"removed {len(paths)} files in {_shown(Path(commonpath(paths)), here)}"
        else:
            yield from (f"{said} {_shown(path, here)}" for path in paths)
    for folder, users in kept:
        verb = "refers" if len(users) == 1 else "refer"
        yield f"kept: {_shown(folder, here)}, {', '.join(_shown(user, here) for user in users)} {verb} to it"


def _shown(path: Path, here: Path) -> str:
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)
