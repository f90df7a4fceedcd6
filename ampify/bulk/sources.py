"""Reads the list of repositories: where each comes from, what it is called, and what may not be asked of git."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ampify.bulk.problem import BulkProblem

_SCHEMES: Final = ("https", "http", "ssh", "git", "file")
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*)://(?P<authority>[^/]*)(?P<path>/.*)?")
# `host:path`, which git takes for ssh unless a slash comes before the colon.
_SSH: Final = re.compile(r"(?P<authority>[^/:]+):(?P<path>.+)")
_REMARK: Final = re.compile(r"(^|\s)#.*")
_PASSWORD: Final = re.compile(r"(?<=://)[^/@\s]+@")
_REF: Final = re.compile(r"[\w.][\w./+-]*")
_STRANGE: Final = re.compile(r"[^\w.+-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Source:
    """A repository to migrate. `location` is what git is given: an address, or the absolute path of a local one.

    `ref` is a branch, a tag or a full commit; empty for the repository's own default branch.
    """

    location: str
    ref: str = ""

    @property
    def shown(self) -> str:
        """The line as reports may show it: without a name and password."""
        return without_password(f"{self.location}@{self.ref}" if self.ref else self.location)

    @property
    def digest(self) -> str:
        """SHA-256 of location and ref, in hexadecimal: tells sources apart where passwords may not be written."""
        return hashlib.sha256(f"{self.location}\n{self.ref}".encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def name(self) -> str:
        """The folder of its results: the end of its location, and enough of its digest that no two share one.

        It depends on nothing else in the list, so that a later run finds it whatever was added.
        """
        parts = [part for part in re.split(r"[/:]", self.location) if part not in ("", ".git")]
        words = _STRANGE.sub("-", "-".join(parts[-2:]).removesuffix(".git")).strip("-.")
        return f"{words[-80:] or 'repository'}-{self.digest[:8]}"


def without_password(words: str) -> str:
    """Text in which the addresses have lost the name and password before their host."""
    return _PASSWORD.sub("", words)


def read_sources(path: Path) -> tuple[Source, ...]:
    """The repositories that the file names, one a line, in its order, each once; raises BulkProblem.

    Local paths are relative to the folder of the file. `#` at the start of a line or after a space begins a remark.
    """
    try:
        lines = path.read_text("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        raise BulkProblem(f"{path}: the list of repositories cannot be read: {error.strerror}; name a file") from error
    found: dict[Source, None] = {}
    for number, line in enumerate(lines, start=1):
        words = _REMARK.sub("", line).strip()
        if words:
            found.setdefault(_source(words, path.absolute().parent, f"{path}:{number}"))
    if not found:
        raise BulkProblem(f"{path}: names no repository; write one local path or git address a line")
    return tuple(found)


def _source(words: str, folder: Path, where: str) -> Source:
    if words.startswith("-"):
        raise BulkProblem(f"{where}: {words!r} looks like an option of git; put ./ before a path that begins so")
    if any(ord(letter) < ord(" ") for letter in words):
        raise BulkProblem(f"{where}: {words!r} holds a control character; remove it")
    address = _URL.fullmatch(words)
    if "::" in words.partition("/")[0] or (address and address["scheme"].lower() not in _SCHEMES):
        known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
        raise BulkProblem(
            f"{where}: {without_password(words)!r} would have git run a helper program; use {known} or a path"
        )
    if address:
        start = address.start("path") if address["path"] else len(words)
        location, ref = _split(words, start)
        return Source(location, _sound(ref, where))
    ssh = None if (folder / words).exists() else _SSH.fullmatch(words)
    if ssh:
        if ssh["authority"].startswith("-"):
            raise BulkProblem(f"{where}: {words!r}: a host cannot begin with -")
        location, ref = _split(words, ssh.start("path"))
        return Source(location, _sound(ref, where))
    # A path that is there as it stands holds no ref, whatever its name.
    location, ref = (words, "") if (folder / words).exists() else _split(words, 0)
    return Source(str((folder / Path(location).expanduser()).resolve()), _sound(ref, where))


def _split(words: str, start: int) -> tuple[str, str]:
    """Location and ref, the ref being what follows the last `@` of the path, which begins at `start`."""
    path, at, ref = words[start:].rpartition("@")
    return (words[:start] + path, ref) if at else (words, "")


def _sound(ref: str, where: str) -> str:
    if ref and (not _REF.fullmatch(ref) or ".." in ref):
        raise BulkProblem(f"{where}: {ref!r} is no branch, tag or commit; write it after the address: ADDRESS@REF")
    return ref
