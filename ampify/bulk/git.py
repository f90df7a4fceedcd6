"""Runs git: as a process with an argument list, with no shell, no question asked and no code of a stranger's run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ampify.bulk.problem import RepositoryFailed
from ampify.bulk.sources import Source, without_password

NAME: Final = "ampify"
EMAIL: Final = "ampify@localhost.invalid"

# Hooks could come from a template that runs what the repository configures; `ext::` and the like run programs.
_SAFE: Final = ("-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "gc.auto=0")
_SILENT: Final[Mapping[str, str]] = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
}
# They would have git look at another repository than that of the folder it is run in.
_ELSEWHERE: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
_FULL_COMMIT: Final = 40
# Seconds for a question that is answered in one, or hangs.
_PATIENCE: Final = 60.0


def git(folder: Path, *arguments: str, text: str = "", patience: float | None = None) -> str:
    """What git prints when run in `folder`, given `text` on its standard input; raises RepositoryFailed.

    `patience` is how many seconds it may take.
    """
    done = _run(folder, arguments, text, patience)
    if done.returncode:
        raise RepositoryFailed(f"git {arguments[0]} failed: {_reason(done.stderr)}")
    return done.stdout


def check_out(source: Source, folder: Path, branch: str, depth: int) -> str:
    """Makes `folder` a repository with `source` checked out as a new `branch`; the commit it starts from.

    `depth` is how many commits are fetched, 0 for all. The source is only read. Raises RepositoryFailed.
    """
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    git(folder, "remote", "add", "--", "origin", source.location)
    shallow = [f"--depth={depth}"] if depth else []
    git(
        folder,
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-recurse-submodules",
        *shallow,
        "--",
        "origin",
        source.ref or "HEAD",
    )
    commit = git(folder, "rev-parse", "--verify", "--end-of-options", "FETCH_HEAD^{commit}").strip()
    git(folder, "checkout", "--quiet", "-b", branch, commit, "--")
    return commit


def newest_commit(source: Source) -> str:
    """The commit that the source stands at now; raises RepositoryFailed if it cannot be asked."""
    if len(source.ref) == _FULL_COMMIT and set(source.ref) <= set("0123456789abcdef"):
        return source.ref
    asked = source.ref or "HEAD"
    listed = git(Path.cwd(), "ls-remote", "--", source.location, asked, f"{asked}^{{}}", patience=_PATIENCE)
    pairs = (line.partition("\t") for line in listed.splitlines() if "\t" in line)
    names = {name: commit for commit, _, name in pairs}
    ref = source.ref
    # In the order in which git itself resolves a name; an annotated tag stands for the commit it names.
    wanted = (f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}", ref) if ref else ("HEAD",)
    commit = next((names[name] for name in wanted if name in names), None)
    if commit is None:
        raise RepositoryFailed(f"{source.shown}: the repository has no {ref or 'commit'}")
    return commit


def commit_paths(folder: Path, paths: list[str], message: str) -> str:
    """Commits the files at `paths` alone, as the user, or under the name of ampify where there is none; the commit."""
    listed = "\0".join(paths)
    git(folder, "add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul", text=listed)
    git(folder, *_identity(folder), "commit", "--quiet", "--no-verify", "--no-gpg-sign", "--file=-", text=message)
    return git(folder, "rev-parse", "HEAD").strip()


def is_as_left(folder: Path, commit: str) -> bool:
    """Whether a checkout still stands at `commit` with nothing edited or added since."""
    try:
        head = git(folder, "rev-parse", "HEAD").strip()
        return head == commit and not git(folder, "status", "--porcelain").strip()
    except RepositoryFailed:
        return False


def _identity(folder: Path) -> list[str]:
    """What to tell git so that it knows who commits, where nobody has told it; variables of git's own go first."""
    told = {"name": NAME, "email": EMAIL}
    missing = [key for key in told if not _run(folder, ("config", f"user.{key}"), "", None).stdout.strip()]
    return [word for key in missing for word in ("-c", f"user.{key}={told[key]}")]


def _run(
    folder: Path, arguments: tuple[str, ...], text: str, patience: float | None
) -> subprocess.CompletedProcess[str]:
    here = {key: value for key, value in os.environ.items() if key not in _ELSEWHERE}
    environment = {**here, **_SILENT}
    try:
        return subprocess.run(
            ["git", *_SAFE, "-C", str(folder), *arguments],
            input=text,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="surrogateescape",
            env=environment,
            timeout=patience,
        )
    except subprocess.TimeoutExpired as error:
        raise RepositoryFailed(f"git {arguments[0]} did not answer within {patience:g} s") from error
    except OSError as error:
        raise RepositoryFailed(f"git cannot be run: {error.strerror}; install it") from error


def _reason(complaint: str) -> str:
    """The last line that says what is wrong, in one line."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return without_password((fatal or lines or ["it gave no reason"])[0])
