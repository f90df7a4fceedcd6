"""Reads and extends conda's `environment.yml`: its packages, and those that pip installs on top of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

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

_ITEM = re.compile(r"(?P<indent>\s*)-\s+(?P<value>.*?)\s*(?:\s#.*)?$")
_PACKAGE = re.compile(r"(?:[\w./-]+::)?(?P<name>[A-Za-z0-9_.-]+?)\s*(?P<version>(?:[=<>!~\s].*)?)$")
_COMPARISON = re.compile(r"[<>!~]")
# What conda calls torch.
_TORCH_NAMES = ("pytorch", "pytorch-gpu", "pytorch-cpu", "torch")


@dataclass(frozen=True, slots=True)
class _Item:
    """A list item under `dependencies`; `pip` tells that it stands in the list that pip installs."""

    line: int
    indent: str
    value: str
    pip: bool = False


def read(source: SourceFile) -> Declaration:
    """What a conda environment lists."""
    items = list(_items(source.text.splitlines()))
    listed = tuple(found for item in items if (found := _listed(item)))
    declaration = Declaration(source.path, listed, python=_python(listed))
    if not declaration.lists_torch or declaration.lists_runtime:
        return declaration
    return replace(declaration, additions=(_edit(items, source.path),))


def _items(lines: list[str]) -> Iterator[_Item]:
    inside = False
    pip_indent: str | None = None
    for number, text in enumerate(lines, start=1):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        match = _ITEM.match(text)
        if match is None:
            inside = text.split("#")[0].strip() == "dependencies:"
            continue
        if not inside:
            continue
        indent, value = match["indent"], match["value"].strip("\"'")
        if pip_indent is not None and len(indent) <= len(pip_indent):
            pip_indent = None
        yield _Item(number, indent, value, pip=pip_indent is not None)
        if value == "pip:":
            pip_indent = indent


def _listed(item: _Item) -> Listed | None:
    if item.pip:
        return parse_requirement(item.value, item.line)
    package = _PACKAGE.match(item.value)
    if package is None:
        return None
    name = TORCH if package["name"] in _TORCH_NAMES else canonicalize_name(package["name"])
    return Listed(name, Constraint(item.value, item.line, _versions(package["version"].strip())))


def _versions(text: str) -> tuple[SpecifierSet, ...]:
    """Alternatives in PEP 440 of a conda version: `=1.7` is a prefix, `=1.7=build` names a build, `|` is "or"."""
    return specifiers(*(_version(part.strip()) for part in text.split("|")))


def _version(text: str) -> str:
    if text.startswith("=="):
        return f"=={text[2:].partition('=')[0].strip()}"
    if not text or _COMPARISON.match(text):
        return text.replace(" ", "")
    version = text.lstrip("= ").partition("=")[0].strip().removesuffix("*").removesuffix(".")
    return f"=={version}.*" if version else ""


def _python(listed: tuple[Listed, ...]) -> Constraint | None:
    return next((item.constraint for item in listed if item.name == "python"), None)


def _edit(items: list[_Item], path: str) -> EditLines:
    pip = [item for item in items if item.pip]
    if pip:
        return EditLines(path, pip[-1].line + 1, 0, f"{pip[-1].indent}- {RUNTIME_REQUIREMENT}\n")
    indent = items[-1].indent
    nested = f"{indent}  - {RUNTIME_REQUIREMENT}\n"
    if items[-1].value == "pip:":
        return EditLines(path, items[-1].line + 1, 0, nested)
    # conda warns about a list for pip where pip itself is not asked for.
    asked = "" if any(item.name == "pip" for item in map(_listed, items) if item) else f"{indent}- pip\n"
    return EditLines(path, items[-1].line + 1, 0, f"{asked}{indent}- pip:\n{nested}")
