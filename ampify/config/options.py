"""Which options there are, what each may be, and what a `[tool.ampify]` table presets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from ampify.model.settings import OPT_LEVELS

# Pairs of a pattern of files and the codes that are not heeded there.
PerFile: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
Value: TypeAlias = str | bool | int | tuple[str, ...] | PerFile

FORMATS = ("text", "json", "github", "sarif", "markdown")
PER_FILE = "per-file-ignores"
REPORT_ENDINGS = (".md", ".html", ".json", ".sarif")


class InvalidOption(Exception):
    """An option or a configuration file that cannot be used; the message says which, where and what to do."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option that may be preset: what its value may be, in words, and how to read it (None: it may not be that)."""

    words: str
    read: Callable[[object], Value | None]
    choices: tuple[str, ...] = ()


def _choice(*choices: str) -> Option:
    return Option(f"one of {', '.join(choices)}", lambda value: value if value in choices else None, choices)


def _strings(value: object) -> tuple[str, ...] | None:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def _names(value: object) -> tuple[str, ...] | None:
    names = (value,) if isinstance(value, str) else _strings(value)
    return names if names and all(names) else None


def _per_file(value: object) -> PerFile | None:
    if not isinstance(value, dict):
        return None
    codes = [(pattern, _strings(given)) for pattern, given in value.items()]
    read = tuple((pattern, own) for pattern, own in codes if own is not None)
    return read if len(read) == len(codes) else None


_FLAG = Option("true or false", lambda value: value if isinstance(value, bool) else None)
_TEXT = Option("a string that is not empty", lambda value: value if isinstance(value, str) and value else None)
_LIST = Option("a list of strings", _strings)

OPTIONS: Mapping[str, Option] = {
    "target": _choice("runtime", "native"),
    "opt-level": _choice(*OPT_LEVELS),
    "dtype": _choice("float16", "bfloat16"),
    "vendor": _TEXT,
    "add-flag": _FLAG,
    "unsafe": _FLAG,
    "select": _LIST,
    "ignore": _LIST,
    "exclude": _LIST,
    PER_FILE: Option('a table of patterns with lists of codes, such as {"tests/*" = ["AMP2"]}', _per_file),
    "format": _choice(*FORMATS),
    "report": Option("a file name, or a list of them", _names),
    "jobs": Option("a whole number of at least 1", _count),
    "exit-zero": _FLAG,
    "no-cache": _FLAG,
    "allow-dirty": _FLAG,
}
# Flags that say what this one run is to do; a file that preset them would surprise.
RUN_FLAGS = ("write", "check", "config", "verbose", "quiet", "statistics", "verify", "explain-sites")


def read_value(key: str, given: object, where: str) -> Value:
    """The value of an option as `where` gives it; raises InvalidOption if it may not be that."""
    option = OPTIONS[key]
    value = option.read(given)
    if value is None:
        raise InvalidOption(f"{where} must be {option.words}, not {given!r}")
    return value


def require_known(key: str, where: str) -> None:
    """Raises InvalidOption, with the nearest right name, if there is no such option to preset."""
    if key in RUN_FLAGS:
        raise InvalidOption(f"{where}: `{key}` cannot be preset; give --{key} on the command line")
    if key not in OPTIONS:
        close = get_close_matches(key.replace("_", "-"), OPTIONS, n=1, cutoff=0.5)
        remedy = f"did you mean `{close[0]}`?" if close else f"the keys are {', '.join(OPTIONS)}"
        raise InvalidOption(f"{where}: unknown key `{key}` in [tool.ampify]; {remedy}")


def report_path(text: str) -> Path:
    """The file a report goes to; raises InvalidOption if its ending names no format of a report."""
    path = Path(text)
    if path.suffix not in REPORT_ENDINGS:
        ending = f"the ending {path.suffix}" if path.suffix else "a name without an ending"
        raise InvalidOption(f"--report {text}: {ending} names no format of a report; use {', '.join(REPORT_ENDINGS)}")
    return path
