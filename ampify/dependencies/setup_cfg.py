"""Reads and extends `setup.cfg`: `install_requires`, the extras and `python_requires`."""

from __future__ import annotations

import re
from configparser import Error, RawConfigParser
from dataclasses import dataclass

from ampify.dependencies.declaration import (
    RUNTIME_REQUIREMENT,
    TORCH,
    Constraint,
    Declaration,
    Listed,
    parse_requirement,
    specifiers,
)
from ampify.model.edit import EditLines
from ampify.model.source import SourceFile

_SECTION = re.compile(r"\[(?P<name>[^\]]+)\]")
_OPTION = re.compile(r"(?P<key>[^\s=:#;\[][^=:]*?)\s*[=:]\s*(?P<value>.*)")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that holds requirements: the value of `key` in `section`, or one line of it."""

    section: str
    key: str
    number: int
    text: str
    value: str
    listed: tuple[Listed, ...]

    @property
    def torch(self) -> bool:
        return any(item.name == TORCH for item in self.listed)


def read(source: SourceFile) -> Declaration | None:
    """What a `setup.cfg` lists; None if it is not one that `configparser` reads."""
    parser = RawConfigParser(strict=False)
    try:
        parser.read_string(source.text)
    except Error:
        return None
    lines = _lines(source.text.splitlines())
    required = [line for line in lines if (line.section, line.key) == ("options", "install_requires")]
    extras = [line for line in lines if line.section == "options.extras_require"]
    listed = tuple(item for line in (*required, *extras) for item in line.listed)
    declaration = Declaration(source.path, listed, python=_python(lines))
    if not declaration.lists_torch or declaration.lists_runtime:
        return declaration
    chosen = [line for line in required if line.torch][:1] or [line for line in extras if line.torch]
    additions = tuple(_edit(line, source.path) for line in chosen)
    return Declaration(source.path, listed, additions, python=declaration.python)


def _lines(texts: list[str]) -> list[_Line]:
    lines = []
    section = key = ""
    for number, text in enumerate(texts, start=1):
        stripped = text.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        if text[0].isspace():
            value = stripped
        elif header := _SECTION.match(text):
            section, key, value = header["name"].strip(), "", ""
        else:
            option = _OPTION.match(text)
            key, value = (option["key"].lower(), option["value"]) if option else ("", "")
        lines.append(_Line(section, key, number, text, value, _listed(value, number)))
    return lines


def _listed(value: str, number: int) -> tuple[Listed, ...]:
    """Requirements of one line; a semicolon parts them, unless it starts an environment marker."""
    whole = parse_requirement(value, number)
    if whole is not None and whole.constraint.alternatives:
        return (whole,)
    parts = (parse_requirement(part, number) for part in value.split(";"))
    return tuple(part for part in parts if part is not None)


def _edit(line: _Line, path: str) -> EditLines:
    if line.text[0].isspace():
        indent = line.text[: len(line.text) - len(line.text.lstrip())]
        return EditLines(path, line.number + 1, 0, f"{indent}{RUNTIME_REQUIREMENT}\n")
    # On the key's own line setuptools parts requirements by semicolons.
    return EditLines(path, line.number, 1, f"{line.text.rstrip().rstrip(';')}; {RUNTIME_REQUIREMENT}\n")


def _python(lines: list[_Line]) -> Constraint | None:
    for line in lines:
        if (line.section, line.key) == ("options", "python_requires") and line.value:
            return Constraint(f"python_requires {line.value}", line.number, specifiers(line.value))
    return None
