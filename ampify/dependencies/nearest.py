"""Finds, for files of a repository, the nearest folder upward whose files list torch."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from ampify.dependencies import environment_file, pyproject_file, requirements_file, setup_cfg, setup_script
from ampify.dependencies.declaration import Declaration
from ampify.model.source import SourceFile
from ampify.source import UnreadableSource, read_source

READERS: tuple[tuple[str, Callable[[SourceFile], Declaration | None]], ...] = (
    ("requirements*.txt", requirements_file.read),
    ("requirements*.in", requirements_file.read),
    ("requirements/*.txt", requirements_file.read),
    ("requirements/*.in", requirements_file.read),
    ("pyproject.toml", pyproject_file.read),
    ("setup.py", setup_script.read),
    ("setup.cfg", setup_cfg.read),
    ("environment*.yml", environment_file.read),
    ("environment*.yaml", environment_file.read),
)
# pip writes UTF-16 where a PowerShell redirects its output.
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class Declared:
    """A file that declares what a repository needs: where it is, its text, and what it says."""

    path: Path
    source: SourceFile
    declaration: Declaration


@dataclass(frozen=True, slots=True)
class Nearest:
    """The declaring files that hold for a set of files, in a fixed order; and the files for which none lists torch."""

    declared: tuple[Declared, ...]
    without: tuple[str, ...]


def read_declaration(source: SourceFile) -> Declaration | None:
    """What a file declares, read by its name; None if its name or its content is of no kind known here."""
    path = PurePosixPath(source.path)
    for pattern, read in READERS:
        name = path.name if "/" not in pattern else f"{path.parent.name}/{path.name}"
        if fnmatch(name, pattern):
            return read(source)
    return None


def nearest_declarations(files: Iterable[tuple[Path, str]], bounds: Iterable[Path]) -> Nearest:
    """The nearest declarations of `files`, each a path with its display; none above the outermost of `bounds`."""
    limits = [bound.resolve() for bound in bounds]
    levels: dict[str, tuple[Declared, ...]] = {}
    chosen: dict[str, Declared] = {}
    without: list[str] = []
    for path, display in files:
        level = _nearest_level(path, display, limits, levels)
        chosen.update((declared.source.path, declared) for declared in level)
        if not level:
            without.append(display)
    return Nearest(tuple(chosen[path] for path in sorted(chosen)), tuple(without))


def _nearest_level(
    path: Path, display: str, limits: list[Path], levels: dict[str, tuple[Declared, ...]]
) -> tuple[Declared, ...]:
    for folder, shown in upward(path, display, limits):
        if shown not in levels:
            levels[shown] = tuple(_read_folder(folder, PurePosixPath(shown)))
        declarations = [declared.declaration for declared in levels[shown]]
        if any(declaration.lists_torch or declaration.lists_runtime for declaration in declarations):
            return levels[shown]
    return ()


def upward(path: Path, display: str, limits: list[Path]) -> Iterator[tuple[Path, str]]:
    """The folders of a file up to the outermost of the limits that hold it, each with its display."""
    folder = path.parent.resolve()
    shown = PurePosixPath(display).parent
    above = [limit for limit in limits if folder.is_relative_to(limit)]
    last = min(above, key=lambda limit: len(limit.parts), default=folder)
    yield folder, str(shown)
    while folder != last:
        folder, shown = folder.parent, shown.parent
        yield folder, str(shown)


def _read_folder(folder: Path, shown: PurePosixPath) -> Iterator[Declared]:
    found = {path.relative_to(folder).as_posix(): path for pattern, _ in READERS for path in folder.glob(pattern)}
    for name in sorted(found):
        source = _read(found[name], str(shown / name))
        declaration = read_declaration(source) if source else None
        if source and declaration:
            yield Declared(found[name], source, declaration)


def _read(path: Path, display: str) -> SourceFile | None:
    """A file's text; None if it cannot be read, which leaves the repository without its declaration and says so."""
    try:
        if path.suffix == ".py":
            return read_source(path, display)
        return _decode(path.read_bytes(), display)
    except (OSError, UnreadableSource):
        return None


def _decode(raw: bytes, display: str) -> SourceFile:
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _source(raw, display, encoding, mark)
    try:
        return _source(raw, display, "utf-8", b"")
    except UnicodeDecodeError:  # Latin-1 reads any bytes and writes the same back
        return _source(raw, display, "latin-1", b"")


def _source(raw: bytes, display: str, encoding: str, mark: bytes) -> SourceFile:
    text = raw[len(mark) :].decode(encoding)
    newline = "\r\n" if "\r\n" in text else "\n"
    return SourceFile(display, raw, text, encoding, mark, newline)
