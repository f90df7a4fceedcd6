"""Keeps compiled kernels on disk, for many processes at once: whole, checked, and only where nobody else can write."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .sources import Source

FOLDER_VARIABLE = "AMPIFY_KERNEL_CACHE"
# Also says in which format the entries are.
_MAGIC = b"ampify kernel 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size


def folder_for(environment: Mapping[str, str], home: Path) -> Path:
    """Where compiled kernels are kept: `AMPIFY_KERNEL_CACHE`, else below the user's folder for caches."""
    if named := environment.get(FOLDER_VARIABLE):
        return Path(named)
    if sys.platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "ampify" / "kernels"
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "ampify" / "kernels"


def key_of(source: Source, options: Sequence[str], compiler: str) -> str:
    """A name for what `compiler` makes of `source` with `options`, the architecture among them; hexadecimal.

    Each part's length goes in too, so that no two sets of parts run into the same bytes.
    """
    digest = hashlib.sha256()
    parts = [compiler, *options, source.name, source.text, *(part for header in source.headers for part in header)]
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


class KernelCache:
    """A folder of compiled kernels. What cannot be read or written is as if it were not there: never an error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> bytes | None:
        """The image under `key`; None if there is none, or it is damaged, or others could have written it."""
        try:
            if not self.trusted():
                return None
            stored = self._path(key).read_bytes()
        except OSError:
            return None
        image = stored[len(_MAGIC) + _DIGEST_BYTES :]
        return image if stored == _entry(image) else None

    def write(self, key: str, image: bytes) -> bool:
        """Put `image` under `key`, all of it or nothing; whether that could be done."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.trusted():
                return False
            self._replace(key, _entry(image))
        except OSError:
            return False
        return True

    def trusted(self) -> bool:
        """Whether the folder is this user's, and nobody else can write into it; raises OSError if it is not there."""
        if sys.platform == "win32":
            return self.folder.is_dir()
        status = self.folder.stat()
        others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not others_write

    def writable(self) -> bool:
        """Whether an entry could be written now; makes the folder."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self.trusted() and os.access(self.folder, os.W_OK | os.X_OK)
        except OSError:
            return False

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.kernel"

    def _replace(self, key: str, entry: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=f".{key[:16]}-")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(entry)
            temporary.replace(self._path(key))
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _entry(image: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(image).digest() + image
