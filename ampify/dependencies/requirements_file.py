"""Reads and extends `requirements.txt`: a requirement a line, with comments, options, continuations and hashes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ampify.dependencies.declaration import RUNTIME_PROJECT, RUNTIME_REQUIREMENT, Declaration, Listed, parse_requirement
from ampify.model.edit import EditLines
from ampify.model.source import SourceFile

_COMMENT = re.compile(r"(?:^|\s+)#.*$")
_OPTION = re.compile(r"\s+--?[A-Za-z]")

_HASHES = "it pins hashes, which only the tool that wrote it can add"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A requirement and the physical lines it takes, 1-based, the last one included."""

    listed: Listed
    first: int
    last: int


def read(source: SourceFile) -> Declaration:
    """What a requirements file lists."""
    lines = source.text.splitlines()
    entries = _entries(lines)
    listed = tuple(entry.listed for entry in entries)
    declaration = Declaration(source.path, listed)
    if not declaration.lists_torch or declaration.lists_runtime:
        return declaration
    if any("--hash" in line for line in lines):
        return Declaration(source.path, listed, obstacle=_HASHES)
    edit = EditLines(source.path, _place(entries, lines), 0, f"{RUNTIME_REQUIREMENT}\n")
    return Declaration(source.path, listed, (edit,))


def _entries(lines: list[str]) -> list[_Entry]:
    entries = []
    number = 0
    while number < len(lines):
        first = number
        text = _COMMENT.sub("", lines[number])
        while text.endswith("\\") and number + 1 < len(lines):
            number += 1
            text = text[:-1] + _COMMENT.sub("", lines[number])
        number += 1
        listed = _requirement(text, first + 1)
        if listed is not None:
            entries.append(_Entry(listed, first + 1, number))
    return entries


def _requirement(text: str, line: int) -> Listed | None:
    text = text.strip()
    if not text or text.startswith("-"):
        return None
    return parse_requirement(_OPTION.split(text, maxsplit=1)[0], line)


def _place(entries: list[_Entry], lines: list[str]) -> int:
    """Where the runtime goes: in its place in a sorted file, else after torch."""
    names = [entry.listed.name for entry in entries]
    if len(names) > 1 and names == sorted(names):
        after = next(entry for entry in entries if entry.listed.name > RUNTIME_PROJECT)  # torch is, at the latest
        if after.first == 1 or not lines[after.first - 2].lstrip().startswith("#"):
            return after.first
    return next(entry.last for entry in entries if entry.listed.name == "torch") + 1
