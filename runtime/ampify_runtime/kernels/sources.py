"""Owns the reading of the CUDA sources: package data, whole without any header from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from .families import FAMILIES, Variant

_FOLDER = "csrc"
_HEADERS = ("elements.cuh", "lists.cuh", "table.cuh", "sums.cuh", "state.cuh")


@dataclass(frozen=True, slots=True)
class Source:
    """A translation unit: its file's name and text, and the headers that it may include, name and text."""

    name: str
    text: str
    headers: tuple[tuple[str, str], ...]


@cache
def _read(name: str) -> str:
    return (resources.files(__package__) / _FOLDER / name).read_text(encoding="utf-8")


def source_of(variant: Variant) -> Source:
    """The source that `variant` is compiled from."""
    file = FAMILIES[variant.family].file
    return Source(file, _read(file), tuple((name, _read(name)) for name in _HEADERS))
