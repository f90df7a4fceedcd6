"""What `doctor` and `warmup` ask of the kernels: where they stand on this machine, and to be compiled ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Kernel:
    """One variant of a kernel; `state` is "compiled" (in this process), "cached" (on disk) or "fallback"."""

    name: str
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The machine as the kernels see it; a version that is not known is "", and its reason is in `problems`."""

    torch: str
    cuda: str
    driver: str
    nvrtc: str
    architectures: tuple[str, ...]
    cache_folder: Path
    cache_writable: bool
    kernels: tuple[Kernel, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """One variant that `warm` compiled, or found in the cache; `error` if it could not be compiled."""

    name: str
    seconds: float
    cached: bool
    error: str = ""


def diagnose() -> Diagnosis:
    """Look at the machine; compiles nothing, needs no GPU, never raises."""
    raise NotImplementedError


def warm(architecture: str | None = None) -> Iterator[Built]:
    """Compile the common variants into the cache, for `architecture` ("sm_90") or the devices that are here.

    Needs NVRTC, but no GPU if an architecture is named. Raises LookupError with the reason where NVRTC is not found,
    the architecture is not known to it, or none is named and there is no device.
    """
    raise NotImplementedError
