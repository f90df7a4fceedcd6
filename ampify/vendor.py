"""Copies the runtime package into a repository, so that the migrated code runs there with nothing to install."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import ampify
from ampify.model.plan import Outcome

PACKAGE = "ampify_runtime"


class VendorConflict(Exception):
    """The runtime cannot be copied; the message says which file is in the way and what to do."""


def runtime_files() -> dict[str, bytes]:
    """The runtime that came with this ampify: contents by path below the package's folder, in a fixed order.

    Raises VendorConflict if it is not there.
    """
    folder = package_folder()
    if folder is None:
        raise VendorConflict(f"the package {PACKAGE} did not come with this ampify; install ampify anew")
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and _belongs(path))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def vendor_outcomes(root: Path, folder: str, files: dict[str, bytes]) -> tuple[Outcome, ...]:
    """New files that put the runtime into `folder` of `root`; those that are there already, the same, are left out.

    Raises VendorConflict if a file that differs is in the way.
    """
    target = f"{folder}/{PACKAGE}" if folder not in ("", ".") else PACKAGE
    return tuple(_new(root, target, files))


def _new(root: Path, target: str, files: dict[str, bytes]) -> Iterator[Outcome]:
    for name, content in files.items():
        path = f"{target}/{name}"
        present = root / path
        if not present.exists():
            yield Outcome(path, "changed", new_bytes=content)
        elif not present.is_file() or present.read_bytes() != content:
            raise VendorConflict(
                f"{path} differs from the runtime of ampify {ampify.__version__}: it was edited, or is of another "
                f"version; nothing was written; move {target} away, or give --vendor another folder"
            )


def package_folder() -> Path | None:
    """The runtime beside ampify, as installed or as in its repository; a copy in the way of imports comes last."""
    home = Path(ampify.__file__).parent.parent
    for candidate in (home / PACKAGE, home / "runtime" / PACKAGE):
        if candidate.is_dir():
            return candidate
    spec = find_spec(PACKAGE)  # finds it without importing it, and so without torch
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def _belongs(path: Path) -> bool:
    return "__pycache__" not in path.parts and path.suffix not in (".pyc", ".pyo")
