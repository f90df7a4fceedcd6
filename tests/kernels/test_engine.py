"""What an engine compiles and when, what it is compiled for, and that both sides have the same idea of a kernel's arguments."""

from __future__ import annotations

import ctypes
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from ampify_runtime.kernels import operations
from ampify_runtime.kernels.architecture import Target, target_for
from ampify_runtime.kernels.driver import Driver, DriverError
from ampify_runtime.kernels.engine import THREADS, Engine, options_for
from ampify_runtime.kernels.engines import engine_for, table_bytes_for
from ampify_runtime.kernels.families import FAMILIES, Unusable, Variant, common_variants
from ampify_runtime.kernels.nvrtc import Nvrtc
from ampify_runtime.kernels.sources import source_of
from ampify_runtime.kernels.state import _FIELDS
from ampify_runtime.kernels.table import CHUNK, LARGE_TABLE, SMALL_TABLE, capacity_of_table, parts_of, table_of

from tests.kernels.emulation import Builder, emulated

SCALE = Variant("scale", ("float16", "float32"))
KNOWN = (75, 80, 86, 89, 90, 100, 103, 120)
C_LETTERS = {"float": "f", "double": "d", "int": "i", "u32": "u", "i64": "q"}


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        (90, "sm_90"),
        (87, "sm_86"),
        (75, "sm_75"),
        (121, "sm_120"),
        (106, "sm_103"),
        (130, "compute_120"),
        (110, "compute_103"),
    ],
)
def test_what_is_compiled_for(capability: int, target: str) -> None:
    assert str(target_for(capability, KNOWN)) == target


def test_a_device_too_old() -> None:
    with pytest.raises(Unusable, match=r"as low as 70 \(it knows 75 on\)"):
        target_for(70, KNOWN)


def test_size_of_tables() -> None:
    assert table_bytes_for(12010, (12, 1)) == LARGE_TABLE
    assert table_bytes_for(12000, (12, 1)) == SMALL_TABLE
    assert table_bytes_for(13000, (12, 0)) == SMALL_TABLE
    assert capacity_of_table(5, LARGE_TABLE) >= 500
    # What is left for a kernel's other arguments.
    assert LARGE_TABLE + 400 <= 32764
    assert SMALL_TABLE + 400 <= 4096


def _letter(parameter: str) -> str:
    if "Table<" in parameter:
        return "T"
    if "Spans " in parameter:
        return "S"
    return "p" if "*" in parameter else C_LETTERS[parameter.split()[0]]


@pytest.mark.parametrize("family", FAMILIES)
def test_arguments_are_those_of_the_source(family: str) -> None:
    text = source_of(Variant(family, ("float32",) * len(FAMILIES[family].parameters))).text
    found = re.findall(r'extern "C" __global__ void __launch_bounds__\([\w, ]+\) (\w+)\(([^)]*)\)', text)
    letters = {name: "".join(_letter(each.strip()) for each in arguments.split(",")) for name, arguments in found}
    assert letters == dict(FAMILIES[family].entries)


def test_numbers_that_both_sides_have() -> None:
    texts = dict(source_of(SCALE).headers)
    assert f"kThreads = {THREADS};" in texts["lists.cuh"]
    assert f"__launch_bounds__({THREADS}) step_prep" in source_of(Variant("step_prep")).text
    assert re.findall(r"float (\w+);", texts["state.cuh"]) == list(_FIELDS)


@pytest.mark.parametrize("size", [LARGE_TABLE, SMALL_TABLE])
@pytest.mark.parametrize("lists", [1, 2, 3, 4, 5])
def test_tables_are_laid_out_as_the_source_has_them(build_folder: Path, lists: int, size: int) -> None:
    builder, headers = Builder(build_folder / "libraries"), dict(source_of(SCALE).headers)
    probe = f"""
#include "cuda_emulation.h"
#include "table.cuh"
extern "C" __attribute__((visibility("default"))) void probe(const Table<{lists}>* t, int at, unsigned long long* out) {{
  out[0] = sizeof *t; out[1] = t->count; out[2] = t->elements[at]; out[3] = t->first_block[at]; out[4] = t->index[at];
  for (int i = 0; i < {lists}; ++i) out[5 + i] = (unsigned long long)t->lists[i][at];
}}"""
    defines = [f"-DAMPIFY_TABLE_BYTES={size}", f"-DAMPIFY_CHUNK={CHUNK}"]
    library = ctypes.CDLL(str(builder.library({**headers, "p.cpp": probe}, "p.cpp", defines, [builder.emulation])))
    tensors = [[torch.zeros(3 + i + CHUNK) for i in range(4)] for _ in range(lists)]
    part = next(parts_of(tensors, range(10, 14), lists, size))
    table, out = table_of(part, range(lists), size), (ctypes.c_uint64 * (5 + lists))()
    library.probe(table.content, 2, out)
    pointers = [column[2].data_ptr() for column in tensors]
    assert list(out) == [len(table.content), 4, CHUNK + 5, 4, 12, *pointers]
    assert len(table.content) <= size
    assert struct.calcsize("P") == 8


def test_each_variant_is_compiled_once_also_by_threads(tmp_path: Path, build_folder: Path) -> None:
    engine = emulated(tmp_path).engine
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(engine.prepare, [SCALE] * 8))
    assert not engine.images[SCALE].cached
    assert len(list((tmp_path / "cache").iterdir())) == 1
    again = emulated(tmp_path).engine
    again.prepare(SCALE)
    assert again.images[SCALE].cached


def test_each_device_has_its_context_and_its_stream(build_folder: Path) -> None:
    engines = [emulated(build_folder, ordinal=ordinal, stream=1000 + ordinal) for ordinal in (0, 3, 5)]
    for found, ordinal in [*zip(engines, (0, 3, 5), strict=True)] * 2:
        with found.in_place():
            operations.scale([torch.ones(9)], [torch.ones(9)], 2.0)
        assert (found.controls.stand_in_ordinal(), found.controls.stand_in_stream()) == (ordinal, 1000 + ordinal)
        assert found.controls.stand_in_depth() == 0


def test_libraries_that_are_too_old(build_folder: Path) -> None:
    builder = Builder(build_folder / "libraries")
    with pytest.raises(DriverError, match="has no cuInit"):
        Driver(ctypes.CDLL(str(builder.emulation)))
    with pytest.raises(Unusable, match=r"older than CUDA 11\.1"):
        Nvrtc(ctypes.CDLL(str(builder.emulation)))


def test_nothing_new_is_loaded_while_a_graph_is_captured(tmp_path: Path, build_folder: Path) -> None:
    engine = emulated(tmp_path).engine
    engine.capturing = lambda: True
    with pytest.raises(Unusable, match="run a step before capturing"):
        engine.prepare(SCALE)
    engine.capturing = lambda: False
    engine.prepare(SCALE)
    engine.capturing = lambda: True
    engine.prepare(SCALE)


def test_an_image_that_the_driver_refuses(tmp_path: Path, build_folder: Path) -> None:
    refusing = emulated(tmp_path)
    refusing.fail("cuModuleLoadData", 222)
    for _ in range(2):
        with pytest.raises(Unusable, match="cuModuleLoadData failed: stand-in failure 222"):
            refusing.engine.prepare(SCALE)
    refusing.fail("", 0)


def test_options_name_everything_that_shapes_the_image() -> None:
    variant = Variant("adam", ("float16", "float32", "float32", "nothing"))
    options = options_for(variant, Target(90, real=True), SMALL_TABLE)
    assert "--gpu-architecture=sm_90" in options
    assert {"-DGRAD=float16", "-DMODEL=nothing", "-DAMPIFY_TABLE_BYTES=3584", f"-DAMPIFY_CHUNK={CHUNK}"} <= set(options)


def test_the_common_variants_are_all_different() -> None:
    names = [str(variant) for variant in common_variants()]
    assert len(set(names)) == len(names)
    assert {variant.family for variant in common_variants()} == set(FAMILIES)


def test_usable_says_why_not() -> None:
    found = operations.usable(torch.device("meta"))
    assert not found
    assert found.reason == "meta tensors have no CUDA kernels"
    if not torch.cuda.is_available():
        assert not isinstance(engine_for(torch.device("cuda", 0)), Engine)
        assert operations.usable(torch.device("cuda")).reason
