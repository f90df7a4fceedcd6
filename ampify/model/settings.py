"""What the user asked for: the options of one run, as the pipeline sees them."""

# `os.path` where `pathlib` has no equal: a path made absolute without asking the disk.
# ruff: noqa: PTH100, PTH118

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

Target: TypeAlias = Literal["runtime", "native"]
OPT_LEVELS = ("O0", "O1", "O2", "O3", "O4", "O5")


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of one run. `root` is the folder paths are shown relative to and the journal lives in.

    `vendor` is the folder the runtime is copied to, as a path relative to `root`; None adds a requirement instead.
    `import_root` is the folder, likewise, that the migrated scripts import from. `opt_level` is written into the
    generated `amp.initialize` call. `per_file_ignores` are pairs of a pattern for absolute paths (one that begins with
    `!` is for all others) and of the codes, or their beginnings, that are not heeded there.
    `evidence` asks for the chain of evidence of every site.
    """

    root: str = "."
    target: Target = "runtime"
    opt_level: str = "O1"
    dtype: str = "float16"
    vendor: str | None = None
    import_root: str = "."
    add_flag: bool = False
    unsafe: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    jobs: int = 1
    cache: bool = True
    evidence: bool = False

    @property
    def runtime_module(self) -> str:
        """The module generated code imports `amp` from."""
        if self.vendor is None:
            return "ampify_runtime"
        folder = PurePosixPath(self.vendor).relative_to(self.import_root)
        return ".".join([*folder.parts, "ampify_runtime"])

    def wants(self, code: str, path: str = "") -> bool:
        """Whether findings of `code` (in the file at `path`, if one is named) are heeded.

        `select` and `ignore` hold beginnings of codes, of which the longer one wins.
        """
        if path and self.per_file_ignores and self._ignores_in(path, code):
            return False
        chosen = max((len(p) for p in self.select if code.startswith(p)), default=-1 if self.select else 0)
        dropped = max((len(p) for p in self.ignore if code.startswith(p)), default=-1)
        return chosen > dropped

    def _ignores_in(self, path: str, code: str) -> bool:
        absolute = os.path.abspath(os.path.join(self.root, path))
        return any(
            code.startswith(codes) and _fits(absolute, pattern.removeprefix("!")) != pattern.startswith("!")
            for pattern, codes in self.per_file_ignores
        )


def _fits(path: str, pattern: str) -> bool:
    # `*` of fnmatch takes `/` as well; a `**/` may also stand for no folder at all.
    return any(fnmatchcase(path, form) for form in (pattern, pattern.replace("/**/", "/")))
