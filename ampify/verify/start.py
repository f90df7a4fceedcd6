"""Makes a request from what stands on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ampify.model.settings import Settings
from ampify.verify.base import project_root
from ampify.verify.command import Command, launched, parse_command
from ampify.verify.problem import VerifyProblem
from ampify.verify.request import Request


class NoSuchScript(VerifyProblem):
    """A script that is not there, or not in the project; the message says which and what to do."""


def find_project(command: Command, directory: Path, named: Path | None) -> Path:
    """The folder to copy: as named, or the git repository that the script is in, or else the working folder or the
    script's own, whichever holds the other.

    Raises NoSuchScript.
    """
    script = directory / command.target
    if not command.module and not script.is_file():
        raise NoSuchScript(f"{command.target}: no such script in {directory}")
    home = directory if command.module else script.resolve().parent
    if named is not None:
        root = named.resolve()
    else:
        top = project_root(home)
        root = top if top != home else (directory if home.is_relative_to(directory) else home)
    root = root.resolve()
    if not directory.resolve().is_relative_to(root) or not home.resolve().is_relative_to(root):
        raise NoSuchScript(
            f"the working folder {directory} and {command.target} are not both in the project {root}; "
            "name a folder that holds both: --project DIR"
        )
    return root


def request_for(
    command: Command, options: Mapping[str, Any], settings: Settings, paths: Sequence[Path] = ()
) -> Request:
    """The request that the options of `ampify verify` make; `paths` are what is migrated, the whole project if none.

    Raises NoSuchScript.
    """
    here = Path.cwd().resolve()
    root = find_project(command, here, options["project"])
    return Request(
        command=launched(command, options["nproc"]),
        root=root,
        directory=here.relative_to(root),
        # The runs are given the runtime, so that no copy of it is needed.
        settings=replace(settings, vendor=None, import_root="."),
        migrate=tuple(_inside(path, root) for path in paths) or (".",),
        steps=options["steps"],
        seeds=options["seeds"],
        seed=options["seed"],
        timeout=options["timeout"],
        dtype=options["dtype"],
        base=options["base"],
        resume=options["resume"],
        python=options["python"],
        keep=options["keep"],
    )


def request_of_line(line: str, settings: Settings, paths: Sequence[Path]) -> Request:
    """The request that `--write --verify "python train.py ..."` makes, all else as it is by default.

    Raises UnclearCommand and NoSuchScript.
    """
    command = parse_command(line)
    here = Path.cwd().resolve()
    root = find_project(command, here, None)
    return Request(
        command=command,
        root=root,
        directory=here.relative_to(root),
        settings=replace(settings, vendor=None, import_root="."),
        migrate=tuple(_inside(path, root) for path in paths),
    )


def _inside(path: Path, root: Path) -> str:
    real = path.resolve()
    if not real.is_relative_to(root):
        raise NoSuchScript(f"{path} is not in the project {root}; name a folder that holds it: --project DIR")
    return real.relative_to(root).as_posix()
