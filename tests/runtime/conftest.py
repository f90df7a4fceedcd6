"""Every test starts where no `amp.initialize` has been called, and with nothing of ours in the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
from ampify_runtime._core import ambient, cast_overrides, enrolment, notices, process_casts, regions, scalers


@pytest.fixture(autouse=True)
def fresh_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("AMPIFY_")]:
        monkeypatch.delenv(name)
    torch.manual_seed(0)
    yield
    regions.forget_regions()
    ambient.withdraw()
    cast_overrides.withdraw()
    cast_overrides.forget_registered()
    enrolment.forget_enrolments()
    scalers.forget_scalers()
    process_casts.forget_settled()
    notices.forget_what_was_said()


@pytest.fixture
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> torch.dtype:
    """O1 on the CPU casts to bfloat16, without scaling."""
    monkeypatch.setenv("AMPIFY_DTYPE", "bfloat16")
    return torch.bfloat16


@pytest.fixture
def float16(monkeypatch: pytest.MonkeyPatch) -> torch.dtype:
    """O1 on the CPU casts to float16, with dynamic scaling."""
    monkeypatch.setenv("AMPIFY_DTYPE", "float16")
    return torch.float16
