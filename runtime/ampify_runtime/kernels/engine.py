"""Compiles, loads and launches the kernels of one device, each when it is first asked for."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from .architecture import Target
from .cache import KernelCache, key_of
from .driver import Context, Driver, DriverError, Function
from .families import FAMILIES, Unusable, Variant
from .nvrtc import Compiled
from .sources import Source, source_of
from .table import CHUNK, Laid

THREADS = 256

_TYPES: Mapping[str, Any] = {
    "p": ctypes.c_void_p,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
    "i": ctypes.c_int32,
    "u": ctypes.c_uint32,
    "q": ctypes.c_int64,
}
Argument = Laid | Tensor | float | int | bool | None


class Compiler(Protocol):
    """What makes images of sources."""

    @property
    def identity(self) -> str:
        """What an image depends on besides source and options."""
        ...

    def compile(self, source: Source, options: list[str]) -> Compiled:
        """The image; raises Unusable."""
        ...


@dataclass(frozen=True, slots=True)
class Image:
    """A variant ready to be loaded: its bytes, whether they came from the cache, and the seconds it took."""

    content: bytes
    cached: bool
    seconds: float


def options_for(variant: Variant, target: Target, table_bytes: int) -> list[str]:
    """What the compiler is told for a variant: the architecture, the size of tables, and the types of elements."""
    defines = (("AMPIFY_TABLE_BYTES", str(table_bytes)), ("AMPIFY_CHUNK", str(CHUNK)), *variant.defines)
    return [f"--gpu-architecture={target}", "--std=c++17", *(f"-D{macro}={value}" for macro, value in defines)]


def build(variant: Variant, compiler: Compiler, target: Target, table_bytes: int, cache: KernelCache) -> Image:
    """The image of a variant, from the cache or compiled and put there; raises Unusable if it does not compile."""
    start = time.perf_counter()
    source, options = source_of(variant), options_for(variant, target, table_bytes)
    key = key_of(source, options, compiler.identity)
    image = cache.read(key)
    cached = image is not None
    if image is None:
        image = compiler.compile(source, options).image
        cache.write(key, image)
    return Image(image, cached, time.perf_counter() - start)


@dataclass(slots=True)
class Engine:
    """The kernels of one device. `stream` gives the stream that is torch's current one there, as an address."""

    driver: Driver
    context: Context
    compiler: Compiler
    target: Target
    cache: KernelCache
    table_bytes: int
    stream: Callable[[], int]
    capturing: Callable[[], bool]
    images: dict[Variant, Image] = field(default_factory=dict)
    failures: dict[Variant, str] = field(default_factory=dict)
    _functions: dict[tuple[Variant, str], Function] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def prepare(self, variant: Variant) -> None:
        """Compile and load a variant unless that was done; raises Unusable, each time, if it cannot be."""
        if variant in self.images:
            return
        with self._lock:
            if variant in self.failures:
                raise Unusable(self.failures[variant])
            if variant not in self.images:
                self._load(variant)

    def _load(self, variant: Variant) -> None:
        if self.capturing():
            raise Unusable(
                f"{variant} was first asked for while a CUDA graph was captured; run a step before capturing"
            )
        try:
            image = build(variant, self.compiler, self.target, self.table_bytes, self.cache)
            with self.driver.current(self.context):
                module = self.driver.load(image.content)
                for entry in FAMILIES[variant.family].entries:
                    self._functions[variant, entry] = self.driver.function(module, entry)
        except (Unusable, DriverError) as error:
            self.failures[variant] = f"{variant}: {error}"
            raise Unusable(self.failures[variant]) from error
        # What was loaded is the driver's; only what is told of it stays.
        self.images[variant] = replace(image, content=b"")

    def launch(self, variant: Variant, entry: str, grid: tuple[int, int], *arguments: Argument) -> None:
        """Start a prepared kernel on torch's current stream, unless the grid is empty; raises DriverError."""
        if 0 in grid:
            return
        signature = FAMILIES[variant.family].entries[entry]
        held = [_held(letter, value) for letter, value in zip(signature, arguments, strict=True)]
        addresses = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
        with self.driver.current(self.context):
            self.driver.launch(self._functions[variant, entry], grid, THREADS, self.stream(), addresses)


def _held(letter: str, value: Argument) -> Any:
    """`value` as C has it, in memory that can be pointed at."""
    if isinstance(value, Laid):
        return value.content
    return _TYPES[letter](value.data_ptr() if isinstance(value, Tensor) else value)


def is_capturing(device: torch.device) -> bool:
    """Whether torch's current stream on `device` is being captured into a CUDA graph."""
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()
