"""Owns `float_function`: a function that computes in fp32 whatever it is given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import ambient

_REDUCED = (torch.float16, torch.bfloat16)


def float_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, run without casts and on float32 arguments, if this thread casts; else as it is.

    Reduced-precision tensors among the arguments are converted, also inside of lists, tuples and dicts.
    Raises TypeError if `function` cannot be called.
    """
    if not callable(function):
        raise TypeError(f"amp.float_function: {type(function).__name__} cannot be called; pass a function or a module")

    def in_float(*args: Any, **kwargs: Any) -> Any:
        if not ambient.casts_anywhere():
            return function(*args, **kwargs)
        with ambient.banned():
            return function(*_to_float(args), **_to_float(kwargs))

    # Not for modules, whose attributes would be copied with the name.
    return in_float if isinstance(function, torch.nn.Module) else functools.update_wrapper(in_float, function)


def _to_float(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in _REDUCED else value
    if type(value) in (list, tuple):
        return type(value)(_to_float(item) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_to_float(item) for item in value))
    if type(value) is dict:
        return {key: _to_float(item) for key, item in value.items()}
    return value
