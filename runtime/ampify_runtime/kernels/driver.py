"""Loads and launches compiled kernels through the CUDA driver's C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NewType

Context = NewType("Context", int)
Module = NewType("Module", int)
Function = NewType("Function", int)

_POINTER, _UNSIGNED, _INT = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int
_ARGUMENTS = {
    "cuInit": (_UNSIGNED,),
    "cuDriverGetVersion": (_POINTER,),
    "cuGetErrorString": (_INT, _POINTER),
    "cuDeviceGet": (_POINTER, _INT),
    "cuDevicePrimaryCtxRetain": (_POINTER, _INT),
    "cuCtxPushCurrent_v2": (_POINTER,),
    "cuCtxPopCurrent_v2": (_POINTER,),
    "cuModuleLoadData": (_POINTER, ctypes.c_char_p),
    "cuModuleGetFunction": (_POINTER, _POINTER, ctypes.c_char_p),
    "cuLaunchKernel": (_POINTER, *[_UNSIGNED] * 7, _POINTER, _POINTER, _POINTER),
}


class DriverError(RuntimeError):
    """A call of the CUDA driver that failed; names the call and what the driver says."""


class Driver:
    """The driver. Its calls act on a context, which `current` makes this thread's for a while."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        for name, arguments in _ARGUMENTS.items():
            function = getattr(library, name, None)
            if function is None:
                raise DriverError(f"the CUDA driver has no {name}; a newer driver is needed")
            function.argtypes = arguments
        self._check("cuInit", library.cuInit(0))

    def version(self) -> int:
        """The newest CUDA that the driver knows, 12010 for 12.1."""
        version = ctypes.c_int()
        self._check("cuDriverGetVersion", self._library.cuDriverGetVersion(ctypes.byref(version)))
        return version.value

    def context(self, ordinal: int) -> Context:
        """The primary context of a device, the one that torch uses; `ordinal` is torch's index of the device."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._check("cuDeviceGet", self._library.cuDeviceGet(ctypes.byref(device), ordinal))
        retained = self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        self._check("cuDevicePrimaryCtxRetain", retained)
        return Context(context.value or 0)

    @contextmanager
    def current(self, context: Context) -> Iterator[None]:
        """Within it, calls of this thread act on `context`; a thread that torch has not touched has none of its own."""
        self._check("cuCtxPushCurrent", self._library.cuCtxPushCurrent_v2(context))
        try:
            yield
        finally:
            popped = ctypes.c_void_p()
            self._library.cuCtxPopCurrent_v2(ctypes.byref(popped))

    def load(self, image: bytes) -> Module:
        """Load a cubin or PTX into the current context."""
        module = ctypes.c_void_p()
        self._check("cuModuleLoadData", self._library.cuModuleLoadData(ctypes.byref(module), image))
        return Module(module.value or 0)

    def function(self, module: Module, name: str) -> Function:
        """A kernel of a loaded module."""
        function = ctypes.c_void_p()
        status = self._library.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        self._check("cuModuleGetFunction", status)
        return Function(function.value or 0)

    def launch(self, function: Function, grid: tuple[int, int], threads: int, stream: int, arguments: Any) -> None:
        """Start a kernel; `arguments` are the addresses of its arguments, which are copied before this returns."""
        x, y = grid
        status = self._library.cuLaunchKernel(function, x, y, 1, threads, 1, 1, 0, stream, arguments, None)
        self._check("cuLaunchKernel", status)

    def _check(self, call: str, status: int) -> None:
        if not status:
            return
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(status, ctypes.byref(text))
        raise DriverError(f"{call} failed: {(text.value or b'unknown error').decode()} (CUDA error {status})")
