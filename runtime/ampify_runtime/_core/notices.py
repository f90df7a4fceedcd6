"""Owns how the runtime speaks to its user: warnings for what to act on, log lines for what happens in training."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from pathlib import Path

import torch

_LOG = logging.getLogger("ampify")
_RUNTIME = str(Path(__file__).resolve().parents[1])
_TORCH = str(Path(torch.__file__).resolve().parent)
_said: set[str] = set()


class AmpWarning(UserWarning):
    """Something in a training script that the runtime could not do as asked, or that looks like a mistake."""


def warn(message: str) -> None:
    """Warn, pointing at the line of the user's script that led here."""
    warnings.warn(f"ampify: {message}", AmpWarning, stacklevel=_depth_of_caller())


def warn_once(topic: str, message: str) -> None:
    """Warn the first time that `topic` comes up in this process."""
    if topic not in _said:
        _said.add(topic)
        warn(message)


def report(message: str) -> None:
    """Log an event of training; one process of a distributed run speaks for all."""
    if not _speaks():
        return
    _LOG.warning("ampify: %s", message)


def forget_what_was_said() -> None:
    """Let `warn_once` speak again on every topic."""
    _said.clear()


def line_of_caller(thread: int) -> str:
    """`file:line` of the user's code that `thread` is in."""
    frame = sys._getframe(1) if thread == threading.get_ident() else sys._current_frames().get(thread)
    while frame is not None and _is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return "at a line unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _speaks() -> bool:
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized() and distributed.get_rank() != 0)


def _depth_of_caller() -> int:
    """The `stacklevel`, seen from `warn`, of the nearest frame outside of this package, torch and contextlib."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename):
        depth, frame = depth + 1, frame.f_back
    return depth


def _is_inside(filename: str) -> bool:
    return filename.startswith((_RUNTIME, _TORCH)) or filename.endswith("contextlib.py")
