"""Which file of a project imports which, read off the bytes of import statements without parsing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Parts: TypeAlias = tuple[str, ...]
# The number of leading dots, and the parts of the dotted name.
Module: TypeAlias = tuple[int, Parts]

# The module after `from` (empty without one), and the text of the names.
Statement: TypeAlias = tuple[bytes, bytes]

# The word and the names after it: in parentheses, where comments may stand, or up to the end of the statement.
_IMPORT: Final = re.compile(rb"import[ \t\f\\\n]*(\((?:[^)#]|#[^\n]*)*|[ \t\f\\*](?:[^\n;\\(]|\\\n)*)")
_FROM: Final = re.compile(rb"from[ \t\f\\\n]*([.\w]+)[ \t\f\\\n]*")
# How far before the word `import` its `from` is looked for, in bytes: a long dotted name, or a continued line.
_REACH: Final = 240
_COMMENT: Final = re.compile(rb"#[^\n]*")
# A call that imports by a literal name, or by one that goes on: `f"a.{x}"`, `"a." + x`.
_DYNAMIC: Final = re.compile(
    rb"(?:import_module|__import__)[\s\\]*\([\s\\]*(?:name[\s\\]*=[\s\\]*)?[fFrRbB]?[\"'](\.*)([\w.]*)([\"'][\s\\]*[,)])?"
)
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class ImportGraph:
    """Who imports whom, by the names to show."""

    forward: Mapping[str, Set[str]]
    backward: Mapping[str, Set[str]]

    def imports(self, name: str) -> Set[str]:
        """The files that `name` imports."""
        return self.forward[name]

    def importers(self, name: str) -> Set[str]:
        """The files that import `name`."""
        return self.backward.get(name, _NONE)


def import_graph(files: Mapping[str, bytes]) -> ImportGraph:
    """The imports among `files` (contents by name); a name that fits several files counts as importing them all."""
    modules = _Modules.of(files)
    forward = {name: _imported(name, content, modules) for name, content in files.items()}
    backward: dict[str, set[str]] = defaultdict(set)
    for name, imported in forward.items():
        for other in imported:
            backward[other].add(name)
    return ImportGraph(forward, backward)


@dataclass(frozen=True, slots=True)
class _Modules:
    """The files by the last part of their module's name, each with all parts; and what was looked up before."""

    by_tail: Mapping[str, list[tuple[Parts, str]]]
    known: dict[tuple[Parts, Parts], frozenset[str]] = field(default_factory=dict)
    read: dict[Statement, tuple[Module, ...]] = field(default_factory=dict)

    @staticmethod
    def of(files: Iterable[str]) -> _Modules:
        by_tail: dict[str, list[tuple[Parts, str]]] = defaultdict(list)
        for name in files:
            parts = _module_of(name)
            by_tail[parts[-1]].append((parts, name))
        return _Modules(dict(by_tail))

    def imported_by(self, statement: Statement) -> tuple[Module, ...]:
        """Every module that `statement` may import; the same statements stand in many files."""
        if statement not in self.read:
            self.read[statement] = tuple(_modules_of(*statement))
        return self.read[statement]

    def absolute(self, folder: Parts, parts: Parts) -> frozenset[str]:
        """What `import parts` may mean in a file of `folder`."""
        key = (folder, parts)
        if key not in self.known:
            self.known[key] = frozenset(self._look_up(folder, parts))
        return self.known[key]

    def _look_up(self, folder: Parts, parts: Parts) -> list[str]:
        # The import root is not known. A folder above the importing file is likeliest; else any path that fits will
        # do, the shorter of path and name being the end of the longer one.
        own = self.by_tail.get(parts[-1], ())
        size = len(parts)
        near = [name for place, name in own if place[-size:] == parts and folder[: len(place) - size] == place[:-size]]
        return near or [name for place, name in own if place[-size:] == parts[-len(place) :]]

    def relative(self, folder: Parts, level: int, parts: Parts) -> list[str]:
        """What `from ..parts import` with `level` dots means in a file of `folder`."""
        if level - 1 > len(folder):
            return []
        place = (*folder[: len(folder) - level + 1], *parts) or ("__init__",)
        return [name for own, name in self.by_tail.get(place[-1], ()) if own == place]

    def below(self, folder: Parts, parts: Parts) -> frozenset[str]:
        """What lies, at any depth, in the package that `parts` may mean in a file of `folder`."""
        key = (folder, (*parts, "*"))
        if key not in self.known:
            self.known[key] = frozenset(self._look_below(folder, parts))
        return self.known[key]

    def _look_below(self, folder: Parts, parts: Parts) -> list[str]:
        everything = [entry for entries in self.by_tail.values() for entry in entries]
        for size in range(len(folder), -1, -1):
            package = (*folder[:size], *parts)
            near = [name for place, name in everything if place[: len(package)] == package]
            if near:
                return near
        size = len(parts)
        return [name for place, name in everything if parts in (place[i : i + size] for i in range(len(place)))]


def _parts_of(path: str) -> Parts:
    return tuple(part for part in path.split("/") if part not in ("", ".", ".."))


def _module_of(name: str) -> Parts:
    """The parts of the module that a file is; a package's `__init__.py` is its folder."""
    parts = _parts_of(name)
    if parts[-1] == "__init__.py" and len(parts) > 1:
        return parts[:-1]
    return (*parts[:-1], parts[-1].removesuffix(".py"))


def _imported(name: str, content: bytes, modules: _Modules) -> frozenset[str]:
    folder = _parts_of(name)[:-1]
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found: set[str] = set(_dynamically_imported(content, folder, modules))
    for level, parts in {module for statement in _statements(content) for module in modules.imported_by(statement)}:
        if level:
            found.update(modules.relative(folder, level, parts))
        else:
            found |= modules.absolute(folder, parts)
    return frozenset(found - {name})


def _statements(content: bytes) -> Iterator[Statement]:
    for match in _IMPORT.finditer(content):
        place = match.start()
        start = content.rfind(b"from", max(0, place - _REACH), place)
        source = _FROM.fullmatch(content, start, place) if start >= 0 else None
        yield (source[1] if source else b"", match[1])


def _modules_of(source: bytes, names: bytes) -> Iterator[Module]:
    """Every module that the statement may import; a name imported from a package may be a module as well."""
    imported = [words[0] for part in _plain(names).split(",") if (words := part.split())]
    if not source:
        for name in imported:
            parts = tuple(name.split("."))
            yield from ((0, parts[:size]) for size in range(1, len(parts) + 1) if parts[size - 1])
        return
    dotted = source.decode("ascii", "replace")
    name = dotted.lstrip(".")
    level = len(dotted) - len(name)
    parts = tuple(name.split(".")) if name else ()
    yield (level, parts)
    yield from ((level, (*parts, child)) for child in imported if child != "*")


def _plain(names: bytes) -> str:
    text = _COMMENT.sub(b"", names) if names.startswith(b"(") else names.partition(b"#")[0]
    return text.replace(b"\\", b" ").replace(b"(", b" ").decode("ascii", "replace")


def _dynamically_imported(content: bytes, folder: Parts, modules: _Modules) -> Iterator[str]:
    """The modules that calls like `import_module("a.b")` name; all of a package if the name goes on within it."""
    if b"import_module" not in content and b"__import__" not in content:
        return
    for match in _DYNAMIC.finditer(content):
        parts = tuple(part for part in match[2].decode("ascii", "replace").split(".") if part)
        if match[1]:
            yield from modules.below(folder, ())
        if parts:
            yield from modules.absolute(folder, parts) if match[3] else modules.below(folder, parts)
