"""Which declared versions are too old for what migrated code needs: the runtime, or names of torch itself."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from ampify.dependencies.declaration import Constraint

TORCH_FLOOR = Version("2.4")
# The first with `torch.amp.GradScaler`.
NATIVE_TORCH_FLOOR = Version("2.3")
PYTHON_FLOOR = Version("3.10")

# A range is not enumerable, so it is probed: with each release there may be, and with each version that it names.
_TORCH = tuple(Version(f"{major}.{minor}.{patch}") for major in (2, 3) for minor in range(40) for patch in range(3))
_PYTHON = tuple(Version(f"3.{minor}.{patch}") for minor in range(10, 40) for patch in (0, 1, 5, 10, 15, 20))


def torch_too_old(constraint: Constraint, floor: Version = TORCH_FLOOR) -> bool:
    """Whether no torch of `floor` or later is allowed."""
    return _excludes(constraint, floor, _TORCH)


def python_too_old(constraint: Constraint) -> bool:
    """Whether no Python of 3.10 or later is allowed."""
    return _excludes(constraint, PYTHON_FLOOR, _PYTHON)


def _excludes(constraint: Constraint, floor: Version, releases: tuple[Version, ...]) -> bool:
    if not constraint.alternatives:
        return False
    return not any(_admits(allowed, floor, releases) for allowed in constraint.alternatives)


def _admits(allowed: SpecifierSet, floor: Version, releases: tuple[Version, ...]) -> bool:
    probes = [version for version in (*releases, *_named(allowed)) if version >= floor]
    return any(allowed.contains(version, prereleases=True) for version in probes)


def _named(allowed: SpecifierSet) -> list[Version]:
    versions = (_version(specifier.version.removesuffix(".*")) for specifier in allowed)
    return [version for version in versions if version is not None]


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:  # `===` takes any text
        return None
