"""Which new files an undo leaves where they are: a copy of the runtime that a file left alone still refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ampify.catalog import RUNTIME
from ampify.write.failure import write_error
from ampify.write.journal import Journal


@dataclass(frozen=True, slots=True)
class Kept:
    """A folder whose new files stay, and the files, left alone as they were edited since, that refer to it."""

    folder: Path
    users: tuple[Path, ...]


def kept_copies(root: Path, journal: Journal, edited: Iterable[Path]) -> tuple[Kept, ...]:
    """The copies of the runtime that a write made under `root` and that `edited` files outside of them still name.

    A mention is enough, in whatever way it is made: a copy too many does no harm, a script without it does not run.
    Raises WriteError if a file cannot be read.
    """
    made = dict.fromkeys(_copies(root, journal))
    users = tuple(path for path in edited if not any(path.is_relative_to(copy) for copy in made) and _names(path))
    return tuple(Kept(copy, users) for copy in made) if users else ()


def _copies(root: Path, journal: Journal) -> Iterator[Path]:
    for entry in journal.entries:
        parts = PurePosixPath(entry.path).parts
        if entry.before is None and RUNTIME in parts[:-1]:
            yield root.joinpath(*parts[: parts.index(RUNTIME) + 1])


def _names(path: Path) -> bool:
    try:
        return RUNTIME.encode() in path.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise write_error(path, error) from error
