"""Which options there are, what each may be, and what a `[tool.ampify]` table presets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from os.path import commonpath
from pathlib import Path
from typing import TypeAlias

from ampify.config.toml import parse_toml, table_at
from ampify.model.settings import OPT_LEVELS

TARGETS = ("runtime", "native")
DTYPES = ("float16", "bfloat16")
FORMATS = ("text", "json", "github", "sarif", "markdown")
REPORT_ENDINGS = (".json", ".md", ".html", ".sarif")

Value: TypeAlias = str | bool | int | tuple[str, ...]

# Choices of the design that this version does not have yet: asking for one is refused, never passed over.
UNAVAILABLE: Mapping[str, tuple[str, ...]] = {
    "target": ("native",),
    "dtype": ("bfloat16",),
    "opt-level": ("O2", "O3", "O5"),
    "format": ("github", "sarif", "markdown"),
    "report": (".md", ".html", ".sarif"),
}
# Flags that say what this one run is to do; a file that preset them would surprise.
RUN_FLAGS = ("write", "check", "config", "verbose")


class InvalidOption(Exception):
    """An option or a configuration file that cannot be used; the message says which, where and what to do."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the value of a key may be, in words, and how to read it: None is returned for what it may not be."""

    words: str
    read: Callable[[object], Value | None]


def _choice(*choices: str) -> Kind:
    words = f"one of {', '.join(choices)}"
    return Kind(words, lambda value: value if isinstance(value, str) and value in choices else None)


def _strings(value: object) -> tuple[str, ...] | None:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


_FLAG = Kind("true or false", lambda value: value if isinstance(value, bool) else None)
_TEXT = Kind("a string", lambda value: value if isinstance(value, str) and value else None)
_LIST = Kind("a list of strings", _strings)
_COUNT = Kind("a whole number of at least 1", _count)

KEYS: Mapping[str, Kind] = {
    "target": _choice(*TARGETS),
    "opt-level": _choice(*OPT_LEVELS),
    "dtype": _choice(*DTYPES),
    "vendor": _TEXT,
    "add-flag": _FLAG,
    "unsafe": _FLAG,
    "select": _LIST,
    "ignore": _LIST,
    "exclude": _LIST,
    "format": _choice(*FORMATS),
    "report": _TEXT,
    "jobs": _COUNT,
    "exit-zero": _FLAG,
    "no-cache": _FLAG,
}
# Values that are paths; in a configuration file they are relative to that file.
PATH_KEYS = ("vendor", "report")


def load_config(explicit: Path | None, paths: Iterable[Path]) -> dict[str, Value]:
    """The presets of the file the user named, or of the nearest `pyproject.toml` with the table.

    It is looked for in the common folder of `paths` and upward.
    """
    if explicit is not None:
        table = _read_table(explicit)
        if table is None:
            raise InvalidOption(f"{explicit} has no [tool.ampify] table; add one, or leave --config out")
        return _presets(table, explicit)
    for folder in _upward(paths):
        candidate = folder / "pyproject.toml"
        table = _read_table(candidate) if candidate.is_file() else None
        if table is not None:
            return _presets(table, candidate)
    return {}


def require_available(option: str, value: str) -> None:
    """Raises InvalidOption if `value` is a choice of `option` that this version lacks."""
    lacking = UNAVAILABLE.get(option, ())
    if value in lacking:
        shown = f"--{option} {value}" if not value.startswith(".") else f"a report that ends in {value}"
        available = [choice for choice in _all_choices(option) if choice not in lacking]
        raise InvalidOption(f"{shown} is not available in this version; available: {', '.join(available)}")


def _all_choices(option: str) -> tuple[str, ...]:
    return {
        "target": TARGETS,
        "dtype": DTYPES,
        "opt-level": OPT_LEVELS,
        "format": FORMATS,
        "report": REPORT_ENDINGS,
    }[option]


def _upward(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The common folder of `paths` and all the folders above it, nearest first."""
    folders = [path if path.is_dir() else path.parent for path in (path.absolute() for path in paths)]
    if not folders:
        return ()
    try:
        common = Path(commonpath(folders))
    except ValueError:  # on different drives
        return ()
    return (common, *common.parents)


def _read_table(path: Path) -> dict[str, object] | None:
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
    if "ampify" not in table_at(document, "tool"):
        return None
    table = table_at(document, "tool")["ampify"]
    if not isinstance(table, dict):
        raise InvalidOption(f"{path}: tool.ampify is no table; write [tool.ampify] on a line of its own")
    return table


def _presets(table: Mapping[str, object], path: Path) -> dict[str, Value]:
    presets: dict[str, Value] = {}
    for key, given in table.items():
        presets[key] = _value(key, given, path)
    return presets


def _value(key: str, given: object, path: Path) -> Value:
    if key in RUN_FLAGS:
        raise InvalidOption(f"{path}: `{key}` cannot be preset; give --{key} on the command line")
    if key not in KEYS:
        raise InvalidOption(f"{path}: unknown key `{key}` in [tool.ampify]; {_nearest(key)}")
    value = KEYS[key].read(given)
    if value is None:
        raise InvalidOption(f"{path}: `{key}` must be {KEYS[key].words}, not {given!r}")
    if key in PATH_KEYS:
        return str(path.parent / str(value))
    return value


def _nearest(key: str) -> str:
    close = get_close_matches(key.replace("_", "-"), KEYS, n=1, cutoff=0.5)
    return f"did you mean `{close[0]}`?" if close else f"the keys are {', '.join(KEYS)}"
