"""What the user asked for: the options of one run, as the pipeline sees them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

Target: TypeAlias = Literal["runtime", "native"]
OPT_LEVELS = ("O0", "O1", "O2", "O3", "O4", "O5")


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of one run. `root` is the folder paths are shown relative to and the journal lives in.

    `vendor` is the folder the runtime is copied to, as a path relative to `root`; None adds a requirement instead.
    `import_root` is the folder, likewise, that the migrated scripts import from. `opt_level` is written into the
    generated `amp.initialize` call.
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
    jobs: int = 1
    cache: bool = True

    @property
    def runtime_module(self) -> str:
        """The module generated code imports `amp` from."""
        if self.vendor is None:
            return "ampify_runtime"
        folder = PurePosixPath(self.vendor).relative_to(self.import_root)
        return ".".join([*folder.parts, "ampify_runtime"])

    def wants(self, code: str) -> bool:
        """Whether findings of `code` are selected; `select` and `ignore` hold prefixes, the longer one wins."""
        chosen = max((len(p) for p in self.select if code.startswith(p)), default=-1 if self.select else 0)
        dropped = max((len(p) for p in self.ignore if code.startswith(p)), default=-1)
        return chosen > dropped
