"""Where a line of a file can be seen in a browser."""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

# `git@host:owner/name.git`, `ssh://git@host/owner/name`, `https://user:secret@host/owner/name.git`
_REMOTE: Final = re.compile(
    r"(?:(?:https?|ssh|git)://)?(?:[^@/]*@)?(?P<host>[\w.-]+)(?::\d+(?=/))?[:/](?P<name>[^\s?#]+?)(?:\.git)?/?"
)


@dataclass(frozen=True, slots=True)
class Links:
    """Makes links to lines. `base` is the address of the repository's files at one commit, with a final slash; without
    one the links are relative. `top` is the repository's folder and `folder` that of the run, both absolute."""

    base: str = ""
    top: str = ""
    folder: str = ""

    def line(self, path: str, line: int, last: int | None = None) -> str | None:
        """The address of a line, or of several; None for what is in no file of the repository."""
        if path.startswith("<"):
            return None
        fragment = f"#L{line}" if last is None or last <= line else f"#L{line}-L{last}"
        relative = self._within(path)
        return None if relative is None else f"{self.base}{quote(os.fsencode(relative))}{fragment}"

    def _within(self, path: str) -> str | None:
        if not self.base:
            return None if path.startswith("/") else posixpath.normpath(path)
        relative = posixpath.relpath(posixpath.join(self.folder, path), self.top)
        return None if relative.startswith("..") else relative


def find_links(folder: Path, environment: Mapping[str, str]) -> Links:
    """The links for a run in `folder`: to where a GitHub workflow runs, or to what `git` names as origin."""
    described = _git(folder, "rev-parse", "--show-toplevel", "HEAD").split("\n")
    if len(described) != 2:
        return Links()
    top, commit = described
    base = _workflow_base(environment) or remote_base(_git(folder, "remote", "get-url", "origin"), commit)
    return Links(base, top, os.path.realpath(folder)) if base else Links()


def remote_base(remote: str, commit: str) -> str:
    """The address of a repository's files at a commit; empty for hosts whose addresses we do not know.

    A name and password in the remote's own address go no further.
    """
    match = _REMOTE.fullmatch(remote)
    if match is None:
        return ""
    kind = {"github": "blob", "gitlab": "-/blob"}
    part = next((kind[word] for word in kind if word in match["host"]), None)
    return f"https://{match['host']}/{match['name'].lstrip('/')}/{part}/{commit}/" if part else ""


def _workflow_base(environment: Mapping[str, str]) -> str:
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
    server, repository, commit = (environment.get(name, "") for name in names)
    return f"{server}/{repository}/blob/{commit}/" if server and repository and commit else ""


def _git(folder: Path, *arguments: str) -> str:
    """What git answers; empty where there is no git, or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
