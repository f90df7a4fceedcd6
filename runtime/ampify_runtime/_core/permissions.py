"""Owns what a script has permitted that is refused otherwise, through the flags that apex kept for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Permissions:
    """Flags of the process."""

    # float16 parameters in an optimizer at a level that casts by itself: their gradients may underflow when unscaled.
    reduced_parameters: bool = False


permissions = Permissions()
