"""Owns functions that compute in a type of the user's choice: reduced, fp32, or the widest of what they are given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import ambient
from .cast_kernels import map_tensors, tensors_in, to_float, widest

Function = Callable[..., Any]


def half_function(fn: Function) -> Function:
    """`fn`, run on arguments in the type that is cast to, wherever casts are on.

    Floating-point tensors among the arguments are converted (float64 is not), also inside of lists, tuples and dicts.
    Raises TypeError if `fn` cannot be called.
    """

    def in_half(*args: Any, **kwargs: Any) -> Any:
        return fn(*map_tensors(_to_cast_type, args), **map_tensors(_to_cast_type, kwargs))

    return _finish(in_half, fn, "half_function")


def float_function(fn: Function) -> Function:
    """`fn`, run without casts and on float32 arguments, if this thread casts; else as it is.

    Reduced-precision tensors among the arguments are converted, also inside of lists, tuples and dicts.
    Raises TypeError if `fn` cannot be called.
    """

    def in_float(*args: Any, **kwargs: Any) -> Any:
        if not ambient.casts_anywhere():
            return fn(*args, **kwargs)
        with ambient.banned():
            return fn(*map_tensors(to_float, args), **map_tensors(to_float, kwargs))

    return _finish(in_float, fn, "float_function")


def promote_function(fn: Function) -> Function:
    """`fn`, run on arguments of one type, the widest among them, wherever casts are on.

    float16 with bfloat16 makes float32; float64 and whole numbers stay as they are.
    Raises TypeError if `fn` cannot be called.
    """

    def in_widest(*args: Any, **kwargs: Any) -> Any:
        tensors = tensors_in(args, kwargs)
        if widest(tensors) is None or not any(map(_is_cast, tensors)):
            return fn(*args, **kwargs)
        return fn(*map_tensors(to_float, args), **map_tensors(to_float, kwargs))

    return _finish(in_widest, fn, "promote_function")


def _finish(wrapper: Function, function: Function, name: str) -> Function:
    if not callable(function):
        raise TypeError(f"amp.{name}: {type(function).__name__} cannot be called; pass a function or a module")
    # Not for modules, whose attributes would be copied with the name.
    return wrapper if isinstance(function, torch.nn.Module) else functools.update_wrapper(wrapper, function)


def _to_cast_type(tensor: torch.Tensor) -> torch.Tensor:
    if not _is_cast(tensor) or not tensor.is_floating_point() or tensor.dtype is torch.float64:
        return tensor
    return tensor.to(torch.get_autocast_dtype(tensor.device.type))


def _is_cast(tensor: torch.Tensor) -> bool:
    device_type = tensor.device.type
    return device_type in ("cpu", "cuda") and torch.is_autocast_enabled(device_type)
