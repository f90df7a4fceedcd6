"""Says, once in a process, that plain torch does the kernels' work on a CUDA device, and why."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch

_PACKAGES = (str(Path(__file__).resolve().parents[1]), str(Path(torch.__file__).resolve().parent))
_said: list[str] = []


def warn_of_fallback(reason: str) -> None:
    """Warn with `reason`, at the line of the user's script that led here, unless that was done before."""
    if _said:
        return
    _said.append(reason)
    warnings.warn(
        f"ampify: fused CUDA kernels are not used, plain torch is: {reason}; "
        "results are the same, speed is not. See `python -m ampify_runtime doctor`.",
        RuntimeWarning,
        stacklevel=_depth_of_caller(),
    )


def _depth_of_caller() -> int:
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGES):
        depth, frame = depth + 1, frame.f_back
    return depth
