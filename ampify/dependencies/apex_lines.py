"""Finds the lines by which a repository installs NVIDIA apex."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Final

from ampify.dependencies.declaration import RUNTIME_REQUIREMENT
from ampify.dependencies.nearest import Nearest, upward
from ampify.model.anchor import line_anchor
from ampify.model.edit import EditLines, Fix
from ampify.model.finding import Finding, Related
from ampify.model.settings import Target

STILL_REQUIRED = ("AMP114", "apex-still-required")

_PATTERNS = (
    "README*", "INSTALL*", "Dockerfile*", "docker/*", "*.sh", "scripts/*.sh", "setup.py", "setup.cfg", "pyproject.toml",
    "environment*.y*ml", "requirements*.txt", "requirements*.in", "requirements/*.txt", ".travis.yml",
    ".github/workflows/*.y*ml",
)  # fmt: skip
_INSTALLS = re.compile(
    r"nvidia/apex|\bpip3?\s+install\b.*\bapex\b|\bconda\s+install\b.*\bapex\b"
    r"|^\s*(?:-\s*)?[\"']?(?:nvidia-)?apex\s*(?:[=<>!~@].*)?[\"']?,?\s*(?:#.*)?$",
    re.IGNORECASE,
)
_REQUIREMENTS = ("requirements*.txt", "requirements*.in")
_LARGEST = 1 << 20
_MESSAGE = "apex is installed here, and no import of it is left"
_HINTS: Final[Mapping[Target, str]] = {
    "runtime": f"take it away; `pip install '{RUNTIME_REQUIREMENT}'` takes its place",
    "native": "take it away; torch has what takes its place",
}


def apex_findings(
    files: Iterable[tuple[Path, str]], bounds: Iterable[Path], nearest: Nearest, *, target: Target = "runtime"
) -> tuple[Finding, ...]:
    """A finding for every file around `files` (paths with their displays) that installs apex, in a fixed order."""
    limits = [bound.resolve() for bound in bounds]
    around = {shown: folder for path, display in files for folder, shown in upward(path, display, limits)}
    declared = {d.source.path for d in nearest.declared}
    found: dict[str, Finding] = {}
    for shown, folder in sorted(around.items()):
        for name, path in _candidates(folder):
            display = str(PurePosixPath(shown) / name)
            lines = tuple(_lines(path))
            if lines:
                found.setdefault(display, _finding(display, lines, target, editable=display in declared))
    return tuple(found[display] for display in sorted(found))


def _candidates(folder: Path) -> Iterator[tuple[str, Path]]:
    found = {path for pattern in _PATTERNS for path in folder.glob(pattern) if path.is_file()}
    return ((path.relative_to(folder).as_posix(), path) for path in sorted(found))


def _lines(path: Path) -> Iterator[int]:
    try:
        if path.stat().st_size > _LARGEST:
            return
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # It may name apex, but nobody can say where.
    for number, line in enumerate(text.splitlines(), start=1):
        if _INSTALLS.search(line):
            yield number


def _finding(display: str, lines: tuple[int, ...], target: Target, *, editable: bool) -> Finding:
    anchor = line_anchor(display, lines[0])
    related = tuple(Related(line_anchor(display, line), "and here") for line in lines[1:])
    if editable and any(fnmatch(PurePosixPath(display).name, pattern) for pattern in _REQUIREMENTS):
        fix = Fix(tuple(EditLines(display, line, 1, "") for line in lines))
        return Finding(*STILL_REQUIRED, anchor, _MESSAGE, fix=fix, related=related)
    hint = _HINTS[target]
    return Finding(*STILL_REQUIRED, anchor, _MESSAGE, hint, related=related)
