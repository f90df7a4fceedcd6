"""What `doctor` and `warmup` ask of the kernels: where they stand on this machine, and to be compiled ahead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from .architecture import Target
from .cache import KernelCache, key_of
from .driver import Driver, DriverError
from .engine import Compiler, Engine, build, options_for
from .engines import cache_of_user, engine_for, table_bytes_for
from .families import Unusable, Variant, common_variants
from .libraries import load_driver, load_nvrtc
from .nvrtc import Nvrtc
from .sources import source_of
from .table import LARGE_TABLE_DRIVER


@dataclass(frozen=True, slots=True)
class Kernel:
    """One variant of a kernel, for one device.

    `state`: "compiled" (loaded in this process), "cached" (on disk), "absent" (to be compiled when first asked for) or
    "fallback" (plain torch does its work, for `reason`).
    """

    name: str
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The machine as the kernels see it; a version that is not known is "", and the reason is in `problems`.

    `architectures`: what is compiled for, one for each device that torch sees and the kernels can be used on.
    """

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
    problems: list[str] = []
    driver, nvrtc = _driver_version(problems), _nvrtc_version(problems)
    engines = [engine_for(device) for device in _devices()]
    problems += [engine for engine in dict.fromkeys(engines) if isinstance(engine, str)]
    if not engines:
        problems.append("torch sees no CUDA device")
    usable = [engine for engine in engines if isinstance(engine, Engine)]
    cache = cache_of_user()
    if not (writable := cache.writable()):
        problems.append(f"{cache.folder} cannot be written to, or others can: kernels are compiled in each process")
    return Diagnosis(
        torch=str(torch.__version__),
        cuda=torch.version.cuda or "",
        driver=driver,
        nvrtc=nvrtc,
        architectures=tuple(str(engine.target) for engine in usable),
        cache_folder=cache.folder,
        cache_writable=writable,
        kernels=tuple(_kernels(usable[0] if usable else "; ".join(problems))),
        problems=tuple(problems),
    )


def warm(architecture: str | None = None) -> Iterator[Built]:
    """Compile the common variants into the cache, for `architecture` ("sm_90") or the devices that are here.

    Needs NVRTC, but no GPU if an architecture is named. Raises LookupError with the reason where NVRTC is not found,
    the architecture is not known to it, or none is named and there is no device.
    """
    if architecture is None:
        yield from _warm_devices()
        return
    try:
        nvrtc = Nvrtc(load_nvrtc())
    except Unusable as reason:
        raise LookupError(str(reason)) from reason
    table_bytes = table_bytes_for(LARGE_TABLE_DRIVER, nvrtc.version)
    yield from _build_all(nvrtc, _target_named(architecture, nvrtc), table_bytes, cache_of_user())


def _warm_devices() -> Iterator[Built]:
    engines = [engine_for(device) for device in _devices()]
    usable = [engine for engine in engines if isinstance(engine, Engine)]
    if not usable:
        reasons = [engine for engine in engines if isinstance(engine, str)] or ["torch sees no CUDA device"]
        raise LookupError(f"{reasons[0]}; name what to compile for, sm_90 say")
    # Devices of a kind need the same images.
    for engine in {(str(engine.target), engine.table_bytes): engine for engine in usable}.values():
        yield from _build_all(engine.compiler, engine.target, engine.table_bytes, engine.cache)


def _build_all(compiler: Compiler, target: Target, table_bytes: int, cache: KernelCache) -> Iterator[Built]:
    for variant in common_variants():
        yield _built(variant, compiler, target, table_bytes, cache)


def _built(variant: Variant, compiler: Compiler, target: Target, table_bytes: int, cache: KernelCache) -> Built:
    try:
        image = build(variant, compiler, target, table_bytes, cache)
    except Unusable as reason:
        return Built(str(variant), 0.0, cached=False, error=str(reason))
    return Built(str(variant), image.seconds, image.cached)


def _target_named(architecture: str, nvrtc: Nvrtc) -> Target:
    known = nvrtc.architectures()
    matched = re.fullmatch(r"sm_(\d+)", architecture)
    if matched is None or int(matched[1]) not in known:
        names = ", ".join(f"sm_{capability}" for capability in known)
        raise LookupError(f"{architecture!r} is no architecture that {nvrtc.identity} compiles for; it knows {names}")
    return Target(int(matched[1]), real=True)


def _devices() -> list[torch.device]:
    return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]


def _driver_version(problems: list[str]) -> str:
    try:
        version = Driver(load_driver()).version()
    except (Unusable, DriverError) as reason:
        problems.append(str(reason))
        return ""
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def _nvrtc_version(problems: list[str]) -> str:
    try:
        return "{}.{}".format(*Nvrtc(load_nvrtc()).version)
    except Unusable as reason:
        problems.append(str(reason))
        return ""


def _kernels(engine: Engine | str) -> Iterator[Kernel]:
    for variant in common_variants():
        if isinstance(engine, str):
            yield Kernel(str(variant), "fallback", engine)
        elif variant in engine.failures:
            yield Kernel(str(variant), "fallback", engine.failures[variant])
        elif variant in engine.images:
            yield Kernel(str(variant), "compiled")
        else:
            yield Kernel(str(variant), "cached" if _is_cached(engine, variant) else "absent")


def _is_cached(engine: Engine, variant: Variant) -> bool:
    options = options_for(variant, engine.target, engine.table_bytes)
    return engine.cache.read(key_of(source_of(variant), options, engine.compiler.identity)) is not None
