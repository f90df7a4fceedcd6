"""The decorator of the classes that stand for code: frozen for who writes it, and quick to make."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # What is said of `dataclass(frozen=True, slots=True)` holds of `node`: types are checked as if it stood there.
    from dataclasses import dataclass as node
else:
    from dataclasses import dataclass

    def node(**options: bool) -> object:
        """As `dataclass`, but not frozen at run time: a frozen one takes three times as long to make, and a large
        project has millions of these."""
        return dataclass(**(options | {"frozen": False, "unsafe_hash": options.get("frozen", False)}))


__all__ = ["node"]
