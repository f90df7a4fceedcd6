"""Compiles CUDA sources with NVRTC, the compiler as a library, through its C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from .families import Unusable
from .sources import Source


@dataclass(frozen=True, slots=True)
class Compiled:
    """What came of a compilation: the image to load, and what the compiler said."""

    image: bytes
    log: str


class Nvrtc:
    """The compiler; several threads may use one."""

    def __init__(self, library: ctypes.CDLL) -> None:
        if not hasattr(library, "nvrtcGetCUBIN"):
            raise Unusable("NVRTC is older than CUDA 11.1 and makes no machine code; a newer one is needed")
        self._library = library
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        self.version = (major.value, minor.value)

    @property
    def identity(self) -> str:
        """What the images depend on besides source, options and architecture."""
        return "nvrtc {}.{}".format(*self.version)

    def architectures(self) -> tuple[int, ...]:
        """The compute capabilities that it compiles for, 90 for 9.0; ascending."""
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        found = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(found))
        return tuple(sorted(found))

    def compile(self, source: Source, options: Sequence[str]) -> Compiled:
        """A cubin if the options name a real architecture (sm_90), PTX if a virtual one (compute_90).

        Raises Unusable with the compiler's words if it refuses.
        """
        program = self._program(source)
        try:
            words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = self._library.nvrtcCompileProgram(program, len(options), words)
            log = self._read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if status:
                raise Unusable(f"{source.name} did not compile: {log.strip() or self._text(status)}")
            is_real = any("=sm_" in option for option in options)
            return Compiled(self._read(program, "CUBIN" if is_real else "PTX"), log)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _program(self, source: Source) -> ctypes.c_void_p:
        count = len(source.headers)
        names = (ctypes.c_char_p * count)(*(name.encode() for name, _ in source.headers))
        texts = (ctypes.c_char_p * count)(*(text.encode() for _, text in source.headers))
        program = ctypes.c_void_p()
        text, name = source.text.encode(), source.name.encode()
        self._check(self._library.nvrtcCreateProgram(ctypes.byref(program), text, name, count, texts, names))
        return program

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw

    def _text(self, status: int) -> str:
        return str(self._library.nvrtcGetErrorString(status).decode())

    def _check(self, status: int) -> None:
        if status:
            raise Unusable(f"NVRTC failed: {self._text(status)}")
