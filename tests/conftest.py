"""What all tests share: torch on one thread, temporary folders that another user may walk through, a browser."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Workers must not fight over cores, and sums keep their order.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def walkable_temporary_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests that give up the superuser's rights still reach their files, however deep a parallel run puts them."""
    top = Path(tempfile.gettempdir()).resolve()
    folder = tmp_path_factory.getbasetemp().resolve()
    while top in folder.parents:
        folder.chmod(folder.stat().st_mode | 0o011)
        folder = folder.parent


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium on this machine")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield chromium
        chromium.close()
