"""Casts the tensors inside of what goes into a model and comes out of it, in whatever they are wrapped."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

Change = Callable[[torch.Tensor], torch.Tensor]


def cast_floats(value: Any, dtype: torch.dtype) -> Any:
    """`value` with its real floating tensors, of any shape, as `dtype`; all else, and what holds no such, is the same.

    Looks into lists, tuples, named tuples, dicts and subclasses of them, dataclasses, and other objects that can be
    moved by `.to(...)`: these come as shallow copies of their own type if something in them is cast.
    """
    return _map(value, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def _map(value: Any, change: Change) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (str, bytes, int, float, nn.Module)) or value is None:
        return value
    if isinstance(value, PackedSequence):
        return value._replace(data=change(value.data))
    if isinstance(value, tuple):
        return _map_tuple(value, change)
    if isinstance(value, list):
        changed = [_map(item, change) for item in value]
        return value if _same(changed, value) else _filled(value, enumerate(changed))
    if isinstance(value, Mapping) and hasattr(value, "__setitem__"):
        # Before dataclasses: the outputs of some libraries are both.
        items = {key: _map(item, change) for key, item in value.items()}
        new = {key: item for key, item in items.items() if item is not value[key]}
        return _filled(value, new.items()) if new else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _with_attributes(value, [field.name for field in dataclasses.fields(value)], change)
    if callable(getattr(value, "to", None)) and not isinstance(value, type):
        # Not by that `to`, which casts indices and masks too.
        return _with_attributes(value, list(getattr(value, "__dict__", ())), change)
    return value


def _map_tuple(value: tuple[Any, ...], change: Change) -> Any:
    items = [_map(item, change) for item in value]
    if _same(items, value):
        return value
    if hasattr(value, "_fields"):
        # Past the constructor, whose signature a subclass may have changed.
        return tuple.__new__(type(value), items)
    return type(value)(items)


def _filled(value: Any, items: Any) -> Any:
    fresh = copy.copy(value)
    for key, item in items:
        fresh[key] = item
    return fresh


def _with_attributes(value: Any, names: list[str], change: Change) -> Any:
    new = {}
    for name in names:
        before = getattr(value, name, None)
        after = _map(before, change)
        if after is not before:
            new[name] = after
    if not new:
        return value
    fresh = copy.copy(value)
    for name, item in new.items():
        # A frozen dataclass lets nobody else.
        object.__setattr__(fresh, name, item)
    return fresh


def _same(changed: list[Any], before: Any) -> bool:
    return all(new is old for new, old in zip(changed, before, strict=True))
