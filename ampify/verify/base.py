"""Puts the files of a git revision where the working tree's copy has its own."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from ampify.verify.problem import VerifyProblem


class UnknownRevision(VerifyProblem):
    """A revision that git cannot give the files of; the message says which, where and what to do."""


def project_root(folder: Path) -> Path:
    """The top of the git repository that `folder` is in; `folder` itself if there is none."""
    done = _git(folder, "rev-parse", "--show-toplevel")
    top = done.stdout.decode("utf-8", "surrogateescape").strip()
    return Path(top) if done.returncode == 0 and top else folder


def put_revision(root: Path, revision: str, target: Path) -> None:
    """Gives the copy at `target` of the working tree at `root` the tracked files that `revision` has.

    What is not tracked, such as data, stays; files that were added since are removed. Raises UnknownRevision.
    """
    if revision.startswith("-"):
        raise UnknownRevision(f"--base {revision} is no revision; give a branch, a tag or a commit")
    top = project_root(root)
    prefix = root.resolve().relative_to(top.resolve()).as_posix()
    tree = revision if prefix == "." else f"{revision}:{prefix}"
    # From the top: elsewhere git takes the tree for one below the folder it stands in.
    done = _git(top, "archive", "--format=tar", tree)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UnknownRevision(
            f"--base {revision}: git has no such files of {root} ({said[-1] if said else 'no reason given'}); "
            "give a branch, a tag or a commit that has this folder"
        )
    for name in _tracked(root):
        (target / name).unlink(missing_ok=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(target, filter="data")


def _tracked(root: Path) -> list[str]:
    listed = _git(root, "ls-files", "-z").stdout.decode("utf-8", "surrogateescape")
    return [name for name in listed.split("\0") if name]


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(arguments, 127, b"", b"git is not installed")
