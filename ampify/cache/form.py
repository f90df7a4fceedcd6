"""The form that results are kept in: plain JSON, checked against the types they are read back as.

A cache is a file like any other, which may be damaged or written by somebody else. So nothing is unpickled: only the
dataclasses that the wanted type names are made, and only from fields of their declared types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

Json: TypeAlias = Any
_PLAIN = (str, int, float, bool, NoneType)


class Malformed(ValueError):
    """What was read is no value of the wanted type."""


def written_value(value: object) -> Json:
    """The value in types that JSON has: a dataclass as the list of its name and its fields, a tuple as a list.

    Raises Malformed for what has no such form.
    """
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, tuple):
        return [written_value(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, *(written_value(getattr(value, field.name)) for field in fields(value))]
    raise Malformed(f"{type(value).__name__} is not kept in caches")


def read_value(data: Json, wanted: Any) -> Any:
    """The value of the type `wanted` that `written_value` made `data` of; raises Malformed if it did not."""
    origin = get_origin(wanted)
    if origin in (Union, UnionType):
        return _one_of(data, get_args(wanted))
    if origin is Literal:
        return _require(data, data in get_args(wanted), wanted)
    if origin is tuple:
        return _tuple(data, get_args(wanted))
    if isinstance(wanted, type) and is_dataclass(wanted):
        return _dataclass(data, wanted)
    return _require(data, wanted in _PLAIN and type(data) is wanted, wanted)


def _one_of(data: Json, kinds: Sequence[Any]) -> Any:
    for kind in kinds:
        if is_dataclass(kind) and not _named(data, kind):
            continue
        try:
            return read_value(data, kind)
        except Malformed:
            continue
    raise Malformed(f"{str(data)[:40]!r} is none of {kinds}")


def _tuple(data: Json, kinds: Sequence[Any]) -> tuple[Any, ...]:
    items = _require(data, isinstance(data, list), tuple)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple([read_value(item, kinds[0]) for item in items])
    _require(data, len(items) == len(kinds), tuple)
    return tuple([read_value(item, kind) for item, kind in zip(items, kinds, strict=True)])


def _dataclass(data: Json, kind: Any) -> Any:
    types = _field_types(kind)
    _require(data, _named(data, kind) and len(data) == len(types) + 1, kind)
    return kind(*[read_value(item, wanted) for item, wanted in zip(data[1:], types, strict=True)])


def _named(data: Json, kind: Any) -> bool:
    return isinstance(data, list) and bool(data) and data[0] == kind.__name__


@cache
def _field_types(kind: Any) -> tuple[Any, ...]:
    types = get_type_hints(kind)
    return tuple(types[field.name] for field in fields(kind))


def _require(data: Json, holds: bool, wanted: Any) -> Any:
    if not holds:
        raise Malformed(f"{str(data)[:40]!r} is no {wanted}")
    return data
