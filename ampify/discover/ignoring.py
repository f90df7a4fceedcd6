"""Knows which paths the `.gitignore` files around and inside a folder rule out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class Layer:
    """The patterns of one ignore file; `folder` is the absolute folder, with a final `/`, that they are relative to."""

    folder: str
    spec: GitIgnoreSpec

    def verdict(self, path: str) -> bool | None:
        """Whether `path` is ignored; None if no pattern speaks of it. A folder's path ends in `/`."""
        return self.spec.check_file(path[len(self.folder) :]).include


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
    top = next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
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


def compile_patterns(lines: Iterable[str]) -> GitIgnoreSpec:
    """The patterns as one matcher; a line that is no pattern counts for nothing, as in git."""
    return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _layer(folder: Path, file: Path) -> Layer | None:
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return None
    return Layer(as_folder(folder), compile_patterns(text.splitlines()))
