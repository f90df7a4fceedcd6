"""All kernels by NVRTC for real architectures, no GPU needed: no spills, and vectors of 16 bytes in the machine code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from ampify_runtime.kernels import diagnosis
from ampify_runtime.kernels.architecture import Target
from ampify_runtime.kernels.cache import KernelCache, key_of
from ampify_runtime.kernels.engine import options_for
from ampify_runtime.kernels.families import FAMILIES, Unusable, Variant, common_variants
from ampify_runtime.kernels.libraries import load_nvrtc
from ampify_runtime.kernels.nvrtc import Nvrtc
from ampify_runtime.kernels.sources import Source, source_of
from ampify_runtime.kernels.table import LARGE_TABLE, SMALL_TABLE

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
# One variant of each family, the one with most to do.
EXAMPLES = tuple({variant.family: variant for variant in reversed(common_variants())}.values())


@pytest.fixture(scope="session")
def nvrtc() -> Nvrtc:
    try:
        return Nvrtc(load_nvrtc())
    except Unusable as reason:
        pytest.skip(f"kernels are not compiled: {reason}; pip install 'nvidia-cuda-nvrtc==13.0.*'")


@pytest.fixture(scope="session")
def compiled_before(pytestconfig: pytest.Config) -> KernelCache:
    """What the compiler said of the same source, options and version in earlier runs: a minute, once."""
    return KernelCache(pytestconfig.cache.mkdir("compiled"))  # type: ignore[union-attr]


def _tool(name: str) -> str:
    """A tool of CUDA, from the PATH or from where pip puts it."""
    folder = Path(sysconfig.get_path("purelib")) / "nvidia"
    places = os.pathsep.join([os.environ.get("PATH", ""), *map(str, sorted(folder.glob("*/bin")))])
    found = shutil.which(name, path=places)
    if found is None:
        pytest.skip(f"machine code is not looked at: {name} is not installed; pip install nvidia-cuda-{name}")
    return found


def _options(variant: Variant, capability: int, table_bytes: int = LARGE_TABLE) -> list[str]:
    return [*options_for(variant, Target(capability, real=True), table_bytes), "--ptxas-options=-v"]


def _compiled_without_spills(nvrtc: Nvrtc, variant: Variant, capability: int, table_bytes: int = LARGE_TABLE) -> bytes:
    compiled = nvrtc.compile(source_of(variant), _options(variant, capability, table_bytes))
    assert compiled.image.startswith(b"\x7fELF")
    _assert_no_spills(variant, compiled.log)
    return compiled.image


def _assert_no_spills(variant: Variant, log: str) -> None:
    reports = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    # Functions that kernels call, as pow, report too.
    assert len(reports) >= len(FAMILIES[variant.family].entries)
    assert set(reports) == {("0", "0", "0")}, log
    assert "warning" not in log
    # 256 threads a block, at least three blocks of them on a multiprocessor's 65,536 registers.
    assert max(map(int, re.findall(r"Used (\d+) registers", log))) <= 85


def _known(nvrtc: Nvrtc, capability: int) -> int:
    if capability not in nvrtc.architectures():
        pytest.skip(f"{nvrtc.identity} does not compile for sm_{capability}")
    return capability


@pytest.mark.parametrize("capability", ARCHITECTURES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_variant(family: str, capability: int, nvrtc: Nvrtc, compiled_before: KernelCache) -> None:
    for variant in (each for each in common_variants() if each.family == family):
        options = _options(variant, _known(nvrtc, capability))
        key = key_of(source_of(variant), options, nvrtc.identity)
        log = compiled_before.read(key)
        if log is None:
            compiled = nvrtc.compile(source_of(variant), options)
            assert compiled.image.startswith(b"\x7fELF")
            log = compiled.log.encode()
            compiled_before.write(key, log)
        _assert_no_spills(variant, log.decode())


@pytest.mark.parametrize("family", ["adam", "lamb"])
def test_small_tables(family: str, nvrtc: Nvrtc) -> None:
    variant = Variant(family, ("float16", "float32", "float32", "float16"))
    image = _compiled_without_spills(nvrtc, variant, 90, SMALL_TABLE)
    assert len(image) < len(_compiled_without_spills(nvrtc, variant, 90))


@pytest.mark.parametrize(
    ("family", "capability"),
    [
        *[(family, 90) for family in ("adam", "sgd", "adagrad", "novograd", "lamb", "grad_stats", "scale")],
        *[("adam", capability) for capability in (75, 120)],
    ],
)
def test_machine_code_moves_16_bytes_at_once(family: str, capability: int, nvrtc: Nvrtc, tmp_path: Path) -> None:
    disassembler = _tool("nvdisasm")
    types = ("float16", "float32", "float32", "float16")[: len(FAMILIES[family].parameters)]
    (tmp_path / "kernels.cubin").write_bytes(
        _compiled_without_spills(nvrtc, Variant(family, types), _known(nvrtc, capability))
    )
    listing = subprocess.run(
        [disassembler, "-c", tmp_path / "kernels.cubin"], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert re.search(r"LDG\.E(\.\w+)*\.128", listing)
    if family != "grad_stats":
        assert re.search(r"STG\.E(\.\w+)*\.128", listing)
    assert not re.search(r"\b(LDL|STL)\b", listing), "local memory is used"
    assert not re.search(r"\b(ATOM|RED)\b", listing), "atomics make sums vary"


def test_what_does_not_compile_says_why(nvrtc: Nvrtc) -> None:
    with pytest.raises(Unusable, match=r"broken.cu did not compile: (?s:.*)identifier \"nonsense\" is undefined"):
        nvrtc.compile(Source("broken.cu", "nonsense x;", ()), ["--gpu-architecture=sm_90"])
    with pytest.raises(Unusable, match="gpu-architecture"):
        nvrtc.compile(Source("fine.cu", "", ()), ["--gpu-architecture=sm_33"])


def test_ptx_for_devices_that_are_too_new(nvrtc: Nvrtc) -> None:
    variant = Variant("scale", ("float16", "float32"))
    options = options_for(variant, Target(90, real=False), LARGE_TABLE)
    assert b".target sm_90" in nvrtc.compile(source_of(variant), options).image


def test_kernels_are_warmed_up_without_a_gpu(nvrtc: Nvrtc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMPIFY_KERNEL_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(diagnosis, "common_variants", lambda: EXAMPLES[:3])
    for cached in (False, True):
        built = list(diagnosis.warm("sm_90"))
        assert [each.name for each in built] == [str(variant) for variant in EXAMPLES[:3]]
        assert [(each.cached, each.error) for each in built] == [(cached, "")] * 3
    with pytest.raises(LookupError, match=r"'sm_33' is no architecture .* sm_90"):
        list(diagnosis.warm("sm_33"))
    found = diagnosis.diagnose()
    assert found.nvrtc == "{}.{}".format(*nvrtc.version)
    assert found.cache_folder == tmp_path / "kernels"
    assert found.cache_writable
