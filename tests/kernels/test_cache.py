"""The cache of compiled kernels: whole entries only, many processes at once, and folders that cannot be used."""

from __future__ import annotations

import multiprocessing
import os
import stat
import sys
from pathlib import Path

import pytest
from ampify_runtime.kernels.cache import KernelCache, folder_for, key_of
from ampify_runtime.kernels.sources import Source

IMAGE = bytes(range(256)) * 200
SOURCE = Source("a.cu", "text", (("b.cuh", "header"),))


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    return KernelCache(tmp_path / "below" / "kernels")


def test_what_is_written_is_read(cache: KernelCache) -> None:
    assert cache.read("k") is None
    assert cache.write("k", IMAGE)
    assert cache.read("k") == IMAGE
    assert cache.read("other") is None
    assert [path.name for path in cache.folder.iterdir()] == ["k.kernel"]


def test_the_folder_is_the_users_alone(cache: KernelCache) -> None:
    cache.write("k", IMAGE)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["short", "flipped", "empty", "longer"])
def test_a_damaged_entry_is_none(cache: KernelCache, damage: str) -> None:
    cache.write("k", IMAGE)
    path = cache.folder / "k.kernel"
    whole = path.read_bytes()
    flipped = whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]
    path.write_bytes({"short": whole[:-5], "flipped": flipped, "empty": b"", "longer": whole + b"x"}[damage])
    assert cache.read("k") is None
    assert cache.write("k", IMAGE)
    assert cache.read("k") == IMAGE


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_to_is_not_used(cache: KernelCache, mode: int) -> None:
    cache.write("k", IMAGE)
    cache.folder.chmod(mode)
    assert cache.read("k") is None
    assert not cache.write("k", IMAGE)
    assert not cache.writable()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = KernelCache(tmp_path / "file" / "kernels")
    assert cache.read("k") is None
    assert not cache.write("k", IMAGE)
    assert not cache.writable()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="asks for a folder that even the superuser cannot write to")
def test_a_home_that_cannot_be_written_to() -> None:
    cache = KernelCache(folder_for({}, Path("/proc/self")))
    assert not cache.write("k", IMAGE)
    assert cache.read("k") is None


def _write_and_read(folder: Path) -> None:
    cache = KernelCache(folder)
    for _ in range(60):
        assert cache.write("k", IMAGE)
        assert cache.read("k") == IMAGE


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="starts processes by forking")
def test_eight_processes_at_once(cache: KernelCache) -> None:
    # A fork has torch imported already, which is what takes long in a new process.
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_write_and_read, args=(cache.folder,)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 8
    assert [path.name for path in cache.folder.iterdir()] == ["k.kernel"]


def test_the_key_covers_everything() -> None:
    keys = {
        key_of(SOURCE, ["-a", "-b"], "nvrtc 13.0"),
        key_of(SOURCE, ["-a", "-c"], "nvrtc 13.0"),
        key_of(SOURCE, ["-a-b"], "nvrtc 13.0"),
        key_of(SOURCE, ["-a", "-b"], "nvrtc 13.1"),
        key_of(Source("a.cu", "texu", SOURCE.headers), ["-a", "-b"], "nvrtc 13.0"),
        key_of(Source("a.cu", "text", (("b.cuh", "headeR"),)), ["-a", "-b"], "nvrtc 13.0"),
        key_of(Source("a.cu", "text", ()), ["-a", "-b"], "nvrtc 13.0"),
    }
    assert len(keys) == 7
    assert key_of(SOURCE, ["-a", "-b"], "nvrtc 13.0") in keys


def test_where_it_is(tmp_path: Path) -> None:
    assert folder_for({"AMPIFY_KERNEL_CACHE": "/x/y", "XDG_CACHE_HOME": "/z"}, tmp_path) == Path("/x/y")
    if os.name == "posix":
        assert folder_for({"XDG_CACHE_HOME": "/z"}, tmp_path) == Path("/z/ampify/kernels")
        assert folder_for({}, tmp_path) == tmp_path / ".cache/ampify/kernels"
