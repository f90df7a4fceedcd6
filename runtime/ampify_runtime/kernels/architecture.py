"""Chooses what to compile for, given what a device is and what the compiler knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .families import Unusable


@dataclass(frozen=True, slots=True)
class Target:
    """A compute capability, 90 for 9.0; `real`: machine code for it, or else PTX that the driver translates."""

    capability: int
    real: bool

    def __str__(self) -> str:
        return f"{'sm' if self.real else 'compute'}_{self.capability}"


def target_for(capability: int, supported: Sequence[int]) -> Target:
    """The best of the `supported` capabilities for a device of `capability`.

    Machine code runs on its own capability and on later ones of the same major number; PTX on all later ones. Raises
    Unusable if the compiler knows nothing as old as the device.
    """
    older = [known for known in supported if known <= capability]
    if not older:
        known = f"{min(supported)} on" if supported else "none"
        raise Unusable(f"NVRTC compiles for no compute capability as low as {capability} (it knows {known})")
    best = max(older)
    return Target(best, real=best // 10 == capability // 10)
