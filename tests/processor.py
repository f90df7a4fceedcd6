"""What torch can compute on the processor that runs the tests."""

from __future__ import annotations

from functools import cache

import pytest

# Fixtures that train an LSTM.
RECURRENT = frozenset({"clip_value", "rnn_language_model"})


def needs_cast_lstms() -> None:
    """Skips a test where torch cannot run an LSTM under autocast in bfloat16: oneDNN has none for older processors."""
    if not _casts_lstms():
        pytest.skip("torch runs no LSTM under autocast in bfloat16 on this processor")


@cache
def _casts_lstms() -> bool:
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16):
        try:
            torch.nn.LSTM(4, 4)(torch.ones(2, 1, 4))
        except RuntimeError:
            return False
    return True
