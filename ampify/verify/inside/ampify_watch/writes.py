"""Keeps the user's files from being written to, and notes what a script writes outside of the copy it runs in."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from typing import Any

from .orders import Orders
from .record import Record

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PLACES_OF_THE_SYSTEM = ("/dev/", "/proc/", "/sys/")
# Events of the interpreter, and which of their arguments is the path that changes.
_CHANGES = {"os.mkdir": 0, "os.rename": 1, "os.remove": 0, "os.truncate": 0, "shutil.copyfile": 1, "shutil.move": 1}


class Writes:
    """Sees each file that Python code opens for writing, before it is opened."""

    def __init__(self, orders: Orders, record: Record) -> None:
        self.tree = _folder(orders.tree)
        self.root = _folder(orders.root)
        self.quiet = (_folder(orders.folder), *_PLACES_OF_THE_SYSTEM)
        self.record = record
        # Asked for now: what finds it out opens files, under a lock.
        self.temporary = _folder(tempfile.gettempdir())
        self._known: set[str] = set()
        self._busy = False

    def watch(self) -> None:
        """Starts; an audit hook cannot be taken back."""
        sys.addaudithook(self._hear)

    def prepare(self, path: Any) -> None:
        """Makes `path` safe to write: a link to a file of the project becomes a copy of it. Notes paths outside.

        Raises PermissionError for a path in a folder that is linked as a whole.
        """
        if isinstance(path, int) or not isinstance(path, str | bytes | os.PathLike):
            return
        # As it stands: the last part may be the link in question.
        where = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
        real = os.path.realpath(where)
        if not _below(real, self.tree) and _below(real, self.root):
            self._protect(where, real)
        elif not _below(real, self.tree) and not real.startswith(self.quiet):
            self._note(real)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self._busy or event not in ("open", *_CHANGES):
            return
        if event == "open" and not _opens_for_writing(args):
            return
        self._busy = True
        try:
            # Removing or renaming a link leaves what it points to.
            if event in ("os.remove", "os.rename"):
                self._note_if_outside(args[_CHANGES[event]])
            elif event != "os.mkdir" or not os.path.isdir(args[0]):  # noqa: PTH112
                self.prepare(args[_CHANGES.get(event, 0)])
        finally:
            self._busy = False

    def _note_if_outside(self, path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            where = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
            if not _below(where, self.tree) and not where.startswith(self.quiet):
                self._note(where)

    def _protect(self, where: str, real: str) -> None:
        if _below(where, self.tree) and os.path.islink(where):  # noqa: PTH114
            beside = f"{where}.ampify-copy"
            shutil.copyfile(real, beside)
            os.replace(beside, where)  # noqa: PTH105
        elif _below(where, self.tree):
            raise PermissionError(
                f"{where}: its folder is linked to {os.path.dirname(real)}, which `ampify verify` does not write to; "  # noqa: PTH120
                "name an output folder of its own"
            )
        else:
            # The script names the user's own file by its full path.
            raise PermissionError(
                f"{where} is a file of the project, which `ampify verify` does not write to; "
                "name it relative to the working folder"
            )

    def _note(self, path: str) -> None:
        if path in self._known or _is_temporary(path.removeprefix(self.temporary)):
            return
        self._known.add(path)
        self.record.write("write", path=path)


def _is_temporary(name: str) -> bool:
    """Whether a path below the folder for temporary files was named by a machine."""
    return name.startswith(("tmp", "pymp-", "torch", "pytorch-", "ipykernel", "ipython", "wandb-", "matplotlib-"))


def _opens_for_writing(args: tuple[Any, ...]) -> bool:
    mode, flags = args[1], args[2]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITING)


def _folder(path: str) -> str:
    return os.path.join(os.path.realpath(path), "")  # noqa: PTH118


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder)
