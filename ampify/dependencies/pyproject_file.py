"""Reads and extends `pyproject.toml`: standard dependencies, extras and groups, and those of Poetry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ampify.config.toml import Table, parse_toml, table_at
from ampify.dependencies.declaration import (
    RUNTIME_PROJECT,
    RUNTIME_REQUIREMENT,
    TORCH,
    Constraint,
    Declaration,
    Listed,
    parse_requirement,
    specifiers,
)
from ampify.dependencies.toml_array import extend_array, key_line, read_array, table_lines
from ampify.model.edit import EditLines
from ampify.model.source import SourceFile

_UNUSUAL = "its layout is an unusual one"
_CARET = re.compile(r"(?P<sign>[\^~])\s*(?P<version>\d+(?:\.\d+)*)$")


@dataclass(frozen=True, slots=True)
class _Place:
    """A list of requirements: the array `key` of `table`, or, for Poetry (no key), the table itself."""

    table: tuple[str, ...]
    key: str
    listed: tuple[Listed, ...]

    @property
    def torch(self) -> bool:
        return any(item.name == TORCH for item in self.listed)


def read(source: SourceFile) -> Declaration | None:
    """What a `pyproject.toml` lists; None if it is not TOML."""
    text = source.text.replace("\r\n", "\n")
    try:
        document = parse_toml(text)
    except ValueError:
        return None
    places = list(_places(document, text.split("\n")))
    listed = tuple(item for place in places for item in place.listed)
    declaration = Declaration(source.path, listed, python=_python(document, text.split("\n")))
    if not declaration.lists_torch or declaration.lists_runtime:
        return declaration
    chosen = [place for place in places if place.torch]
    # Where the package itself needs torch, its extras need not list the runtime again.
    main = [place for place in chosen if place.table in (("project",), ("tool", "poetry", "dependencies"))]
    edits = [_edit(place, text, source.path) for place in main[:1] or chosen]
    additions = tuple(edit for edit in edits if edit is not None)
    if len(additions) < len(edits) or not _adds(text, document, additions):
        return replace(declaration, obstacle=_UNUSUAL)
    return replace(declaration, additions=additions)


def _places(document: Table, lines: list[str]) -> Iterator[_Place]:
    project = table_at(document, "project")
    yield from _array(("project",), "dependencies", project.get("dependencies"), lines)
    for keys in (("project", "optional-dependencies"), ("dependency-groups",)):
        for key, value in table_at(document, *keys).items():
            yield from _array(keys, key, value, lines)
    poetry = ("tool", "poetry")
    groups = table_at(document, *poetry, "group")
    tables: list[tuple[str, ...]] = [(*poetry, "dependencies"), (*poetry, "dev-dependencies")]
    tables += [(*poetry, "group", name, "dependencies") for name in groups]
    for table in tables:
        within = table_lines(lines, ".".join(table))
        packages = table_at(document, *table)
        yield _Place(table, "", tuple(_poetry(name, value, lines, within) for name, value in packages.items()))


def _array(table: tuple[str, ...], key: str, value: object, lines: list[str]) -> Iterator[_Place]:
    if not isinstance(value, list):
        return
    texts = [item for item in value if isinstance(item, str)]
    listed = (parse_requirement(text, _line_of(text, lines)) for text in texts)
    yield _Place(table, key, tuple(item for item in listed if item is not None))


def _line_of(text: str, lines: list[str]) -> int:
    quoted = (f'"{text}"', f"'{text}'")
    return next((number for number, line in enumerate(lines, start=1) if any(q in line for q in quoted)), 1)


def _poetry(name: str, value: object, lines: list[str], within: range) -> Listed:
    index = key_line(lines, within, name)
    versions = [_poetry_version(item) for item in (value if isinstance(value, list) else [value])]
    text = f'{name} = "{" or ".join(versions)}"'
    return Listed(canonicalize_name(name), Constraint(text, (index or 0) + 1, _poetry_specifiers(versions)))


def _poetry_version(value: object) -> str:
    version = value.get("version", "*") if isinstance(value, dict) else value
    return version if isinstance(version, str) else "*"


def _poetry_specifiers(versions: list[str]) -> tuple[SpecifierSet, ...]:
    alternatives = [part for version in versions for part in re.split(r"\|\|?", version)]
    return specifiers(*(_standard(part) for part in alternatives))


def _standard(alternative: str) -> str:
    """A Poetry constraint in PEP 440: `^1.7`, `~1.7`, `1.7`, `*`, and several joined by commas or spaces."""
    parts = re.sub(r"([<>=!~^])\s+", r"\1", alternative).replace(",", " ").split()
    return ",".join(filter(None, map(_standard_part, parts)))


def _standard_part(part: str) -> str:
    if part == "*":
        return ""
    caret = _CARET.match(part)
    if caret is None:
        return f"=={part}" if part[0].isdigit() else part
    numbers = [int(number) for number in caret["version"].split(".")]
    # `^` fixes the first number that is not zero, `~` the second one.
    fixed = next((i for i, number in enumerate(numbers) if number), len(numbers) - 1) if caret["sign"] == "^" else 1
    fixed = min(fixed, len(numbers) - 1)
    ceiling = [*numbers[:fixed], numbers[fixed] + 1]
    return f">={caret['version']},<{'.'.join(map(str, ceiling))}"


def _python(document: Table, lines: list[str]) -> Constraint | None:
    required = table_at(document, "project").get("requires-python")
    if isinstance(required, str):
        line = (key_line(lines, table_lines(lines, "project"), "requires-python") or 0) + 1
        return Constraint(f"requires-python {required}", line, specifiers(required))
    table = table_lines(lines, "tool.poetry.dependencies")
    value = table_at(document, "tool", "poetry", "dependencies").get("python")
    return None if value is None else _poetry("python", value, lines, table).constraint


def _edit(place: _Place, text: str, path: str) -> EditLines | None:
    lines = text.split("\n")
    within = table_lines(lines, ".".join(place.table))
    index = key_line(lines, within, place.key or TORCH)
    if index is None:
        return None
    if not place.key:
        return EditLines(path, index + 2, 0, f'{RUNTIME_PROJECT} = ">=0.1"\n')
    array = read_array(text, len("\n".join(lines[:index])) + lines[index].index("="))
    if array is None:
        return None
    return _changed_lines(text, extend_array(text, array, RUNTIME_REQUIREMENT), path)


def _changed_lines(before: str, after: str, path: str) -> EditLines:
    """The edit that turns `before` into `after`, which differ in one stretch of lines."""
    old, new = before.split("\n"), after.split("\n")
    head = next(index for index, (left, right) in enumerate(zip(old, new, strict=False)) if left != right)
    ends = zip(reversed(old), reversed(new), strict=False)
    tail = min(next(index for index, (left, right) in enumerate(ends) if left != right), len(old) - head)
    return EditLines(path, head + 1, len(old) - head - tail, "\n".join(new[head : len(new) - tail]) + "\n")


def _adds(text: str, document: Table, additions: tuple[EditLines, ...]) -> bool:
    """Whether the edited text is TOML that differs from `document` by the additions alone."""
    lines = text.split("\n")
    for edit in sorted(additions, key=lambda edit: edit.line, reverse=True):
        start = edit.line - 1
        lines[start : start + edit.count] = edit.text.removesuffix("\n").split("\n")
    try:
        edited = parse_toml("\n".join(lines))
    except ValueError:
        return False
    return edited != document and _without_runtime(edited) == _without_runtime(document)


def _without_runtime(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_runtime(item) for key, item in value.items() if key != RUNTIME_PROJECT}
    if isinstance(value, list):
        return [_without_runtime(item) for item in value if item != RUNTIME_REQUIREMENT]
    return value
