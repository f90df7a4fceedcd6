"""Makes the settings of a run from its options, those given over those preset over the defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from keyword import iskeyword
from pathlib import Path
from typing import Final, cast

from ampify.config.nearest import nearest_rule
from ampify.config.options import PER_FILE, InvalidOption, PerFile, Value, read_value, report_path
from ampify.config.precision import level_and_dtype
from ampify.config.table import folders_upward, load_table
from ampify.model.settings import Settings, Target

# The form of a report that `--explain-sites` prints.
SITES: Final = "sites"


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of the pipeline, and what the command line does with its report."""

    settings: Settings
    format: str = "text"
    reports: tuple[Path, ...] = ()
    exit_zero: bool = False
    allow_dirty: bool = False

    def explaining(self) -> Options:
        """The same options, with the ledger and its evidence as what is printed."""
        return replace(self, settings=replace(self.settings, evidence=True), format=SITES)


def read_options(
    given: Mapping[str, object], paths: Sequence[Path], config: Path | None, known: Mapping[str, str]
) -> Options:
    """The options of a run over `paths` from the current folder.

    `given` are those of the command line, by the names of their flags; `known` are the rules' names by their codes.
    Raises InvalidOption.
    """
    flags = {key: read_value(key, value, f"--{key}") for key, value in given.items()}
    preset = load_table(config, paths)
    values = preset | flags
    level, dtype = level_and_dtype(flags, preset)
    for key in ("select", "ignore"):
        _require_codes(_texts(values, key), known, f"--{key}")
    per_file = cast("PerFile", values.get(PER_FILE, ()))
    for pattern, ignored in per_file:
        _require_codes(ignored, known, f'{PER_FILE} "{pattern}"')
    vendor = cast("str | None", values.get("vendor"))
    root = Path.cwd()
    folder = None if vendor is None else _inside(root, vendor)
    form = str(values.get("format", "text"))
    reports = tuple(report_path(name) for name in _texts(values, "report"))
    settings = Settings(
        target=cast("Target", values.get("target", "runtime")),
        opt_level=level,
        dtype=dtype,
        vendor=folder,
        import_root="." if folder is None else _import_root(root, folder, paths),
        add_flag=bool(values.get("add-flag", False)),
        unsafe=bool(values.get("unsafe", False)),
        select=_texts(values, "select"),
        ignore=_texts(values, "ignore"),
        exclude=_texts(values, "exclude"),
        per_file_ignores=per_file,
        jobs=int(cast("int", values.get("jobs", os.cpu_count() or 1))),
        cache=not values.get("no-cache", False),
        evidence=form == "json" or any(path.suffix == ".json" for path in reports),
    )
    return Options(
        settings,
        format=form,
        reports=reports,
        exit_zero=bool(values.get("exit-zero", False)),
        allow_dirty=bool(values.get("allow-dirty", False)),
    )


def import_folder(folder: Path) -> Path:
    """The folder that code in `folder` imports from: itself, or the one that its outermost package is in."""
    return next((f for f in (folder, *folder.absolute().parents) if not (f / "__init__.py").is_file()), folder)


def _texts(values: Mapping[str, Value], key: str) -> tuple[str, ...]:
    return cast("tuple[str, ...]", values.get(key, ()))


def _require_codes(prefixes: Iterable[str], known: Mapping[str, str], where: str) -> None:
    for prefix in prefixes:
        if not any(code.startswith(prefix) for code in known):
            raise InvalidOption(f"{where} {prefix}: no rule has a code that starts so; {nearest_rule(prefix, known)}")


def _inside(root: Path, vendor: str) -> str:
    """The folder relative to the current one, with "/"; raises InvalidOption if it is outside or cannot be imported."""
    folder = (root / vendor).resolve()
    if not folder.is_relative_to(root.resolve()):
        raise InvalidOption(f"--vendor {vendor}: the runtime can be copied only to below the current folder, {root}")
    relative = folder.relative_to(root.resolve())
    for part in relative.parts:
        if not part.isidentifier() or iskeyword(part):
            raise InvalidOption(
                f"--vendor {vendor}: Python cannot import from a folder called {part!r}; name one like `third_party`"
            )
    return relative.as_posix()


def _import_root(root: Path, vendor: str, paths: Iterable[Path]) -> str:
    """The folder that the migrated scripts import from: that of the scripts, or of the package they are in.

    If the copy of the runtime is not below it, the current folder has to do.
    """
    common = next(iter(folders_upward(paths)), root)
    outermost = import_folder(common)
    target = (root / vendor).resolve()
    if target.is_relative_to(outermost) and outermost.is_relative_to(root.resolve()):
        return outermost.relative_to(root.resolve()).as_posix()
    return "."
