"""Finds and reads the `[tool.ampify]` table that presets options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from glob import escape
from os.path import commonpath, realpath
from pathlib import Path
from typing import cast

from ampify.config.options import PER_FILE, InvalidOption, PerFile, Value, read_value, require_known
from ampify.config.toml import Table, parse_toml, table_at

# Values that are paths: in a file they are relative to that file.
_PATHS = ("vendor", "report")


def load_table(explicit: Path | None, paths: Iterable[Path]) -> dict[str, Value]:
    """The presets of the file the user named, or of the nearest `pyproject.toml` that has the table.

    It is looked for in the common folder of `paths` and upward.
    """
    if explicit is not None:
        table = _read_table(explicit)
        if table is None:
            raise InvalidOption(f"{explicit} has no [tool.ampify] table; add one, or leave --config out")
        return _presets(table, explicit)
    for folder in folders_upward(paths):
        candidate = folder / "pyproject.toml"
        table = _read_table(candidate) if candidate.is_file() else None
        if table is not None:
            return _presets(table, candidate)
    return {}


def folders_upward(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The common folder of `paths` and all the folders above it, nearest first; none if they have nothing in common."""
    # `Path.resolve` raises on a loop of links; what is wrong with a path is for others to say.
    folders = [path if path.is_dir() else path.parent for path in (Path(realpath(path)) for path in paths)]
    try:
        common = Path(commonpath(folders))
    except ValueError:  # no paths, or paths on different drives
        return ()
    return (common, *common.parents)


def _read_table(path: Path) -> Table | None:
    try:
        raw = path.read_bytes()
    except OSError as problem:
        raise InvalidOption(f"{path} cannot be read: {problem.strerror or problem}") from problem
    # Old repositories hold all kinds of files; one that does not even name ampify is none of our business.
    if b"ampify" not in raw:
        return None
    try:
        document = parse_toml(raw.decode("utf-8-sig"))
    except ValueError as problem:
        raise InvalidOption(f"{path} is not TOML: {problem}; correct it there") from problem
    tools = table_at(document, "tool")
    if "ampify" not in tools:
        return None
    table = tools["ampify"]
    if not isinstance(table, dict):
        raise InvalidOption(f"{path}: tool.ampify is not a table; write [tool.ampify] on a line of its own")
    return table


def _presets(table: Mapping[str, object], path: Path) -> dict[str, Value]:
    presets: dict[str, Value] = {}
    for key, given in table.items():
        require_known(key, str(path))
        value = read_value(key, given, f"{path}: `{key}`")
        presets[key] = _beside(path, value) if key in _PATHS else value
    if PER_FILE in presets:
        presets[PER_FILE] = tuple(_patterns(path.absolute().parent, cast("PerFile", presets[PER_FILE])))
    return presets


def _patterns(folder: Path, given: PerFile) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The patterns for absolute paths: one without a folder is for any file of that name, others start at `folder`."""
    top = escape(folder.as_posix().rstrip("/"))
    for pattern, codes in given:
        own = pattern.removeprefix("!")
        place = f"*/{own}" if "/" not in own else f"{top}/{own.removeprefix('./')}"
        yield pattern.removesuffix(own) + (own if own.startswith("/") else place), codes


def _beside(file: Path, value: Value) -> Value:
    names = cast("tuple[str, ...]", value) if isinstance(value, tuple) else (str(value),)
    paths = tuple(str(file.parent / name) for name in names)
    return paths if isinstance(value, tuple) else paths[0]
