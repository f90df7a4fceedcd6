"""Reads the values people pass to `amp.initialize`, which come from argparse as text as often as not."""

from __future__ import annotations

from typing import Any

import torch

_TRUE = ("true", "yes", "1")
_FALSE = ("false", "no", "0")
_DTYPES = {
    "float16": torch.float16,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float": torch.float32,
}


def read_bool(name: str, value: Any) -> bool:
    """A bool, or its spelling. Raises ValueError for anything else."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f'amp.initialize: {name}={value!r} is neither true nor false; pass True, False, "True" or "False"')


def read_optional_bool(name: str, value: Any) -> bool | None:
    """As `read_bool`, and None or "None" for no choice."""
    return None if _is_none(value) else read_bool(name, value)


def read_count(name: str, value: Any) -> int:
    """A whole number of at least 1, or its spelling. Raises ValueError for anything else."""
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise ValueError(f"amp.initialize: {name}={value!r} is not a whole number of at least 1")
    return count


def read_verbosity(value: Any) -> int:
    """A whole number, or its spelling. Raises ValueError for anything else."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"amp.initialize: verbosity={value!r} is not a whole number; pass 0 for silence, or 1"
        ) from None


def read_positive(name: str, value: Any) -> float:
    """A finite number above 0, or its spelling. Raises ValueError for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise ValueError(f"amp.initialize: {name}={value!r} is not a positive, finite number")
    return number


def read_optional_positive(name: str, value: Any) -> float | None:
    """As `read_positive`, and None or "None" for no choice."""
    return None if _is_none(value) else read_positive(name, value)


def read_loss_scale(value: Any) -> float | str | None:
    """`"dynamic"`, a positive number or its spelling, or None for no choice. Raises ValueError for anything else."""
    if isinstance(value, str) and value.strip().lower() == "dynamic":
        return "dynamic"
    try:
        return read_optional_positive("loss_scale", value)
    except ValueError:
        raise ValueError(
            f'amp.initialize: loss_scale={value!r} is neither "dynamic" nor a positive number; '
            'pass loss_scale="dynamic" or for example loss_scale=128.0'
        ) from None


def read_dtype(name: str, value: Any) -> torch.dtype | None:
    """A float type of at most 32 bits, or its spelling with or without `torch.`; None or "None" for no choice.

    Raises ValueError for anything else.
    """
    if _is_none(value):
        return None
    dtype = _DTYPES.get(str(value).strip().removeprefix("torch."))
    if dtype is None:
        raise ValueError(
            f"amp.initialize: {name}={value!r} is no type to cast to; pass torch.float16, torch.bfloat16 or "
            "torch.float32"
        )
    return dtype


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip() == "None")
