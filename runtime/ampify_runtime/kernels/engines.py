"""Owns the engines of this process: one for each device that the kernels can be used on, and why not for the others."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from .architecture import target_for
from .cache import KernelCache, folder_for
from .driver import Driver, DriverError
from .engine import Engine, is_capturing
from .families import Unusable
from .libraries import load_driver, load_nvrtc
from .nvrtc import Nvrtc
from .table import LARGE_TABLE, LARGE_TABLE_DRIVER, SMALL_TABLE

# CUDA 12.1, as NVRTC numbers it.
_LARGE_TABLE_NVRTC = (12, 1)

_engines: dict[torch.device, Engine | str] = {}
_lock = threading.Lock()


def engine_for(device: torch.device) -> Engine | str:
    """The engine of a device, or the reason why there is none; found out once."""
    found = _engines.get(device)
    if found is not None:
        return found
    if device.type != "cuda":
        return f"{device.type} tensors have no CUDA kernels"
    with _lock:
        if device not in _engines:
            _engines[device] = _attempt(device)
        return _engines[device]


def cache_of_user() -> KernelCache:
    """The cache where this user's kernels are kept."""
    return KernelCache(folder_for(os.environ, Path.home()))


def table_bytes_for(driver_version: int, nvrtc_version: tuple[int, int]) -> int:
    """How large a table may be: from CUDA 12.1 on, both sides take large ones."""
    large = driver_version >= LARGE_TABLE_DRIVER and nvrtc_version >= _LARGE_TABLE_NVRTC
    return LARGE_TABLE if large else SMALL_TABLE


@contextmanager
def engine_in_place(device: torch.device, engine: Engine) -> Iterator[None]:
    """Within it, `engine` serves tensors on `device`, of whatever type: for rehearsals on a machine with no GPU."""
    before = _engines.get(device)
    _engines[device] = engine
    try:
        yield
    finally:
        if before is None:
            del _engines[device]
        else:
            _engines[device] = before


def _attempt(device: torch.device) -> Engine | str:
    try:
        return _made(device)
    except (Unusable, DriverError, OSError, RuntimeError) as error:
        return str(error) or type(error).__name__


def _made(device: torch.device) -> Engine:
    if torch.version.cuda is None:
        raise Unusable("this torch was not built for CUDA (ROCm has no kernels here)")
    # So that torch has made the context before anybody retains it.
    torch.cuda.init()  # type: ignore[no-untyped-call]
    driver, nvrtc = Driver(load_driver()), Nvrtc(load_nvrtc())
    major, minor = torch.cuda.get_device_capability(device)
    return Engine(
        driver=driver,
        context=driver.context(device.index),
        compiler=nvrtc,
        target=target_for(10 * major + minor, nvrtc.architectures()),
        cache=cache_of_user(),
        table_bytes=table_bytes_for(driver.version(), nvrtc.version),
        stream=lambda: torch.cuda.current_stream(device).cuda_stream,
        capturing=partial(is_capturing, device),
    )
