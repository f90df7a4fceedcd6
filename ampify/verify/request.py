"""Owns what a verification is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ampify.model.settings import Settings
from ampify.verify.command import Command

Dtype: TypeAlias = Literal["auto", "bfloat16", "float16"]


@dataclass(frozen=True, slots=True)
class Request:
    """One verification.

    `root` is the project's folder, which is copied; `directory` the folder in it that the script is run in. `migrate`
    are the paths that are migrated in the copy, relative to `root`. `steps` is the number of optimizer steps (0: to the
    end), `seeds` the number of runs of the original with other seeds, `timeout` seconds for each run. With `base`, a
    git revision, that revision is the original and the files as they are now the migrated version. `resume` are
    arguments with `{checkpoint}` in them that have the script go on from a checkpoint.
    """

    command: Command
    root: Path
    directory: Path
    settings: Settings
    migrate: tuple[str, ...] = (".",)
    steps: int = 200
    seeds: int = 2
    seed: int = 0
    timeout: float = 600.0
    dtype: Dtype = "auto"
    base: str | None = None
    resume: str | None = None
    python: str = ""
    keep: Path | None = None
