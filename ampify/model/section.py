"""A part of a file that can be read on its own: a statement of the module, or several that share a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

SectionKind: TypeAlias = Literal["import", "simple", "block"]


@dataclass(frozen=True, slots=True)
class Section:
    """`first` and `last` are its 1-based lines, decorators included; a block holds a scope or runs statements again.

    An `if` or a `try` at the top of a module may be there to choose an import, and counts as simple.
    """

    first: int
    last: int
    kind: SectionKind
