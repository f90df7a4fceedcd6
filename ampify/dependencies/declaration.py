"""What one file of a repository declares: the packages it lists, the versions it allows, how the runtime would join."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from ampify.model.edit import AddElement, EditLines

RUNTIME_PROJECT = "ampify"
RUNTIME_REQUIREMENT = "ampify>=0.1"
TORCH = "torch"

Addition: TypeAlias = EditLines | AddElement

_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
_WHEEL = re.compile(r"(?:^|[/@\s])torch-(\d[^-\s]*?)-")


@dataclass(frozen=True, slots=True)
class Constraint:
    """Versions a file allows, as written in `text` on `line`: any of `alternatives`; none of them if not understood."""

    text: str
    line: int
    alternatives: tuple[SpecifierSet, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """A package that a file lists, under its normalized name."""

    name: str
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one file lists, in the order of its text.

    `additions` are the edits that add the runtime; empty if it is listed already, or if there is an `obstacle`, which
    says why this file cannot be edited. `python` is the range of Python versions the file asks for, if it does.
    """

    path: str
    listed: tuple[Listed, ...]
    additions: tuple[Addition, ...] = ()
    obstacle: str = ""
    python: Constraint | None = None
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(item.name for item in self.listed))

    @property
    def lists_torch(self) -> bool:
        """Whether torch is among the packages."""
        return TORCH in self.names

    @property
    def lists_runtime(self) -> bool:
        """Whether the runtime is among the packages."""
        return RUNTIME_PROJECT in self.names

    @property
    def torch(self) -> tuple[Constraint, ...]:
        """What is said of torch, each time it is listed."""
        return tuple(item.constraint for item in self.listed if item.name == TORCH)


def parse_requirement(text: str, line: int) -> Listed | None:
    """The package that a requirement (PEP 508, or the address of a torch wheel) asks for; None if it names none."""
    text = text.strip()
    if wheel := _WHEEL.search(text):
        version = wheel[1].replace("%2B", "+").replace("%2b", "+")
        return Listed(TORCH, Constraint(text, line, specifiers(f"=={version}")))
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        name = _NAME.match(text)
        return Listed(canonicalize_name(name[1]), Constraint(text, line)) if name and "://" not in text else None
    return Listed(canonicalize_name(requirement.name), Constraint(text, line, (requirement.specifier,)))


def specifiers(*texts: str) -> tuple[SpecifierSet, ...]:
    """Alternatives in PEP 440; empty, which is to say not understood, if one of them is not."""
    try:
        return tuple(SpecifierSet(text) for text in texts)
    except InvalidSpecifier:
        return ()
