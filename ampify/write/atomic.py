"""Writes a file so that at every moment it holds either its old content or its new one, on disk as well."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from ampify.write.failure import write_error


def replace_content(path: Path, content: bytes, temporary: Path) -> None:
    """Gives the file at `path`, which is no link, the new `content` by way of `temporary`, a name in the same folder.

    An existing file keeps its mode. Raises WriteError.
    """
    write_beside(path, content, temporary)
    move_over(temporary, path)


def write_beside(path: Path, content: bytes, temporary: Path) -> None:
    """Writes `content` to `temporary`, ready to be moved over `path`; leaves nothing behind if it raises WriteError."""
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            _take_after(temporary, path)
    except OSError as error:
        remove(temporary)
        raise write_error(path, error) from error


def move_over(temporary: Path, path: Path) -> None:
    """Makes `temporary` the file at `path`. Raises WriteError."""
    try:
        temporary.replace(path)
    except OSError as error:
        raise write_error(path, error) from error
    flush_folder(path.parent)


def remove(path: Path) -> None:
    """Removes a file, if it is there; one that cannot be removed stays, which harms nobody."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Has the names in `folder` reach the disk, on systems where a folder can be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _take_after(temporary: Path, path: Path) -> None:
    shutil.copymode(path, temporary)
    # Only the superuser may give files away; for anybody else the owner is the same already.
    with contextlib.suppress(OSError, AttributeError):
        facts = path.stat()
        os.chown(temporary, facts.st_uid, facts.st_gid)
