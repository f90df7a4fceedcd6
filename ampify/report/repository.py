"""Finds where the repository of a run can be seen in a browser: from the variables of a workflow, or by asking git."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ampify.report.links import Links

# `git@host:owner/name.git`, `ssh://git@host/owner/name`, `https://user:secret@host/owner/name.git`
_REMOTE: Final = re.compile(
    r"(?:(?:https?|ssh|git)://)?(?:[^@/]*@)?(?P<host>[\w.-]+)(?::\d+(?=/))?[:/](?P<name>[^\s?#]+?)(?:\.git)?/?"
)


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
    return f"https://{match['host']}/{quote(match['name'].lstrip('/'))}/{part}/{commit}/" if part else ""


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
