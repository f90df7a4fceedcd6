"""Names across files: which file an import means."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from ampify.model.facts import ImportedName


class ModuleTable:
    """The project's files as importable modules.

    A project's import root is not known, so an absolute import is looked up beside the importing file, then in each
    folder above it, then as the ending of exactly one path of the project.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._endings: dict[str, list[str]] = {}
        self._found: dict[tuple[str, str, int], str | None] = {}
        self._folders: dict[str, tuple[str, ...]] = {}
        for path in sorted(self._paths):
            for ending in _endings(path):
                self._endings.setdefault(ending, []).append(path)

    def find(self, importer: str, module: str, level: int = 0) -> str | None:
        """The path of `module` (dotted, without leading dots) as `importer` would import it, or None if external."""
        key = (importer, module, level)
        if key not in self._found:
            self._found[key] = self._find(importer, module, level)
        return self._found[key]

    def _find(self, importer: str, module: str, level: int) -> str | None:
        parts = [part for part in module.split(".") if part]
        around = self._around(importer)
        if level:
            return self._file(around[min(level, len(around)) - 1], parts)
        for base in around:
            found = self._file(base, parts)
            if found and found != importer:
                return found
        candidates = self._endings.get("/".join(parts), [])
        return candidates[0] if len(candidates) == 1 and len(parts) > 1 else None

    def _around(self, importer: str) -> tuple[str, ...]:
        """The folder of a file, and all above it, innermost first."""
        home = importer.rpartition("/")[0]
        if home not in self._folders:
            folder = PurePosixPath(importer).parent
            self._folders[home] = tuple(map(str, (folder, *folder.parents)))
        return self._folders[home]

    def member(self, importer: str, name: ImportedName) -> str | None:
        """The path of the submodule that `from module import name` names, if it is one."""
        if name.attribute is None:
            return None
        dotted = f"{name.module}.{name.attribute}" if name.module else name.attribute
        return self.find(importer, dotted, name.level)

    def _file(self, folder: str, parts: list[str]) -> str | None:
        stem = "/".join(parts) if folder == "." and parts else "/".join((folder.rstrip("/"), *parts))
        for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
            if candidate in self._paths:
                return candidate
        return None


def _endings(path: str) -> Iterable[str]:
    pure = PurePosixPath(path)
    parts = pure.parent.parts if pure.name == "__init__.py" else (*pure.parent.parts, pure.stem)
    for start in range(len(parts)):
        yield "/".join(parts[start:])
