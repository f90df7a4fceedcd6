"""An engine whose kernels g++ built, for the tests that run kernels without a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels.emulation import FORWARD, Emulated, emulated, gxx


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes runs only where it is asked for by its mark."""
    if "kernels" in config.getoption("markexpr"):
        return
    long = [item for item in items if item.get_closest_marker("kernels")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("kernels")]


needs_gxx = "g++ is not installed, so that kernels cannot be emulated"


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where what is built for the tests is kept: one folder for all of pytest's workers."""
    if gxx() is None:
        pytest.skip(needs_gxx)
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "emulated"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def session_emulated(build_folder: Path) -> Emulated:
    return emulated(build_folder)


@pytest.fixture
def emulation(session_emulated: Emulated) -> Iterator[Emulated]:
    """The emulated kernels, in the place of those of a GPU for tensors on the CPU."""
    session_emulated.run_threads(FORWARD)
    session_emulated.fail("", 0)
    with session_emulated.in_place():
        yield session_emulated
    # Else plain torch did a kernel's work, and the test saw nothing of the kernel.
    assert session_emulated.engine.failures == {}
