"""Knows which paths the `.gitignore` files around and inside a folder rule out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Patterns:
    """Lines in the language of `.gitignore`, and whether each ignores or takes back; the last to fit decides."""

    lines: tuple[tuple[re.Pattern[str], bool], ...]

    def verdict(self, path: str) -> bool | None:
        """Whether the entry at `path` is ignored; None if no pattern speaks of it. A folder's path ends in `/`.

        Only patterns that fit the entry itself count. pathspec's also fit all below a folder they name; but what is
        below an ignored folder is never looked at, and a folder that is taken back does not take its content along.
        """
        return next((ignore for regex, ignore in reversed(self.lines) if _fits_itself(regex, path)), None)


@dataclass(frozen=True, slots=True)
class Layer:
    """The patterns of one ignore file; `folder` is the absolute folder, with a final `/`, that they are relative to."""

    folder: str
    patterns: Patterns

    def verdict(self, path: str) -> bool | None:
        """What the patterns say of the absolute `path`."""
        return self.patterns.verdict(path[len(self.folder) :])


@dataclass(frozen=True, slots=True)
class Ignoring:
    """The layers that hold in one folder, the innermost first: as in git, the first to speak decides."""

    layers: tuple[Layer, ...] = ()

    def ignores(self, path: str) -> bool:
        """Whether `path`, absolute, with `/` separators and a final one for a folder, is ignored."""
        return next((said for layer in self.layers if (said := layer.verdict(path)) is not None), False)

    def inside(self, folder: Path) -> Ignoring:
        """What holds in `folder`, given that this holds in the folder around it."""
        layer = _layer(folder, folder / ".gitignore")
        return Ignoring((layer, *self.layers)) if layer else self


def ignoring_above(folder: Path) -> Ignoring:
    """What the ignore files above the absolute `folder` say of its content, up to the top of its git repository.

    A folder that they ignore as a whole was named by the user all the same: then they are not asked any further.
    """
    # Not `Path.exists`: that raises inside a folder that may not be entered.
    top = next((place for place in (folder, *folder.parents) if os.path.exists(place / ".git")), None)  # noqa: PTH110
    if top is None:
        return Ignoring()
    excluded = _layer(top, top / ".git" / "info" / "exclude")
    ignoring = Ignoring((excluded,) if excluded else ())
    if top == folder:
        return ignoring
    for place in reversed(folder.parents[: folder.parents.index(top) + 1]):
        ignoring = ignoring.inside(place)
        child = place / folder.relative_to(place).parts[0]
        if ignoring.ignores(as_folder(child)):
            return Ignoring()
    return ignoring


def as_folder(path: Path) -> str:
    """`path` with `/` separators and a final one."""
    return path.as_posix().rstrip("/") + "/"


def compile_patterns(lines: Iterable[str]) -> Patterns:
    """The patterns in `lines`; one that is no pattern counts for nothing, as in git."""
    return Patterns(tuple(pattern for line in lines for pattern in _compiled(line)))


def _compiled(line: str) -> Iterator[tuple[re.Pattern[str], bool]]:
    # A run over single files has no patterns, and pathspec takes long to load.
    from pathspec import GitIgnoreSpec, RegexPattern

    try:
        patterns = GitIgnoreSpec.from_lines([line]).patterns
    except ValueError:
        return
    for pattern in patterns:
        # Comments and empty lines are patterns without an expression.
        if isinstance(pattern, RegexPattern) and pattern.regex is not None and pattern.include is not None:
            yield pattern.regex, pattern.include


def _fits_itself(regex: re.Pattern[str], path: str) -> bool:
    # The only group of pathspec's expressions is the `/` after the folder that the pattern names. One without the group
    # is of the kind `x/**`, which fits all that is in a folder, but not the folder.
    return any(
        match.end(match.lastindex) == len(path) if match.lastindex else regex.match(path.removesuffix("/"))
        for match in regex.finditer(path)
    )


def _layer(folder: Path, file: Path) -> Layer | None:
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return None
    return Layer(as_folder(folder), compile_patterns(text.splitlines()))
