"""Builds the kernels with g++ on an emulation of CUDA, and an engine that launches them through a stand-in driver."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from ampify_runtime.kernels.architecture import Target
from ampify_runtime.kernels.cache import KernelCache
from ampify_runtime.kernels.driver import Driver
from ampify_runtime.kernels.engine import Engine
from ampify_runtime.kernels.engines import engine_in_place
from ampify_runtime.kernels.families import FAMILIES, Unusable
from ampify_runtime.kernels.nvrtc import Compiled
from ampify_runtime.kernels.sources import Source
from ampify_runtime.kernels.table import LARGE_TABLE

EMULATOR = Path(__file__).parent / "emulator"
CPU = torch.device("cpu")
FORWARD, BACKWARD, SHUFFLED = 0, 1, 12345
# Contraction would round once where the text says twice, and differently from one compiler to the next.
FLAGS = ("-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", "-Wall", "-Wextra", "-Wno-unknown-pragmas")
SANITIZED = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=undefined")


def gxx() -> str | None:
    """The C++ compiler, if there is one."""
    return shutil.which("g++")


@dataclass(frozen=True)
class Builder:
    """Builds shared libraries into `folder`, each once, also where several processes ask at the same time."""

    folder: Path

    def library(
        self, texts: dict[str, str], main: str, flags: Sequence[str], against: Sequence[Path | str] = ()
    ) -> Path:
        command = [gxx() or "g++", *FLAGS, *flags, f"-I{EMULATOR}"]
        key = hashlib.sha256(repr((sorted(texts.items()), main, command, against)).encode()).hexdigest()[:24]
        result = self.folder / f"{key}.so"
        if result.exists():
            return result
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            scratch = Path(name)
            for file, text in texts.items():
                (scratch / file).write_text(text)
            built = scratch / "built.so"
            done = subprocess.run(
                [*command, str(scratch / main), *map(str, against), "-o", str(built)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise Unusable(f"g++ refused {main}: {done.stderr[:2000]}")
            built.replace(result)
        return result

    def _of_emulator(self, name: str, against: Sequence[Path] = ()) -> Path:
        texts = {path.name: path.read_text() for path in EMULATOR.iterdir()}
        return self.library(texts, name, ["-O2"], [*against, "-ldl"] if against else [])

    @cached_property
    def emulation(self) -> Path:
        return self._of_emulator("cuda_emulation.cpp")

    @cached_property
    def driver(self) -> Path:
        return self._of_emulator("stand_in_driver.cpp", [self.emulation])


@dataclass
class EmulatingCompiler:
    """Stands where NVRTC does: makes an image that the stand-in driver can load. `edits`: (file, old text, new text)."""

    builder: Builder
    flags: Sequence[str] = ("-O1",)
    edits: Sequence[tuple[str, str, str]] = ()
    applied: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def identity(self) -> str:
        return f"g++ {self.builder.emulation} {self.flags} {self.edits}"

    def compile(self, source: Source, options: Sequence[str]) -> Compiled:
        defines = [option for option in options if option.startswith("-D")]
        texts = {name: self._edited(name, text) for name, text in [(source.name, source.text), *source.headers]}
        entries = next(family.entries for family in FAMILIES.values() if family.file == source.name)
        lines = ['#include "cuda_emulation.h"', f'#include "{source.name}"']
        texts["whole.cpp"] = "\n".join([*lines, *(f"EMULATED_KERNEL({entry})" for entry in entries), ""])
        flags = ["-fvisibility=hidden", "-fno-gnu-unique", *self.flags, *defines]
        library = self.builder.library(texts, "whole.cpp", flags, [self.builder.emulation])
        return Compiled(f"emulated kernels at {library}".encode() + b"\0", "")

    def _edited(self, name: str, text: str) -> str:
        for edit in self.edits:
            file, old, new = edit
            if file == name:
                assert old in text, f"{file} has no {old!r}"
                text = text.replace(old, new)
                self.applied.add(edit)
        return text


@dataclass(frozen=True)
class Emulated:
    """An engine on the stand-in driver, and what a test may ask of that."""

    engine: Engine
    controls: ctypes.CDLL

    def in_place(self) -> AbstractContextManager[None]:
        """Within it, the engine serves tensors of the CPU."""
        return engine_in_place(CPU, self.engine)

    @property
    def launches(self) -> int:
        return int(self.controls.stand_in_launches())

    def run_threads(self, order: int) -> None:
        self.controls.stand_in_set_order(order)

    def fail(self, call: str, code: int) -> None:
        self.controls.stand_in_fail(call.encode(), code)


def emulated(
    folder: Path,
    *,
    flags: Sequence[str] = ("-O1",),
    edits: Sequence[tuple[str, str, str]] = (),
    table_bytes: int = LARGE_TABLE,
    ordinal: int = 0,
    stream: int = 0,
) -> Emulated:
    """An engine of its own; libraries that were built before in `folder` are used again."""
    builder = Builder(folder / "libraries")
    controls = ctypes.CDLL(str(builder.driver))
    driver = Driver(controls)
    engine = Engine(
        driver=driver,
        context=driver.context(ordinal),
        compiler=EmulatingCompiler(builder, flags, edits),
        target=Target(90, real=True),
        cache=KernelCache(folder / "cache"),
        table_bytes=table_bytes,
        stream=lambda: stream,
        capturing=lambda: False,
    )
    return Emulated(engine, controls)
