"""Tests of missing permissions: the superuser, as whom tests often run, has them all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65534
needs_user_ids = pytest.mark.skipif(not hasattr(os, "seteuid"), reason="there are no user ids here")


def open_to_all(folder: Path) -> None:
    """Lets everybody into `folder`, which lies in one of pytest's temporary folders."""
    for place in (folder, *folder.parents):
        if place.stat().st_uid == os.geteuid() and len(place.parts) > 2:
            place.chmod(place.stat().st_mode | 0o755)


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Gives up the superuser's rights for a while."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(own)
