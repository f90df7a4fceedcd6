"""What all tests share: torch on one thread, and temporary folders that another user may walk through."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

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
