"""Compares two checkpoints, entry by entry, in a process that has the script's torch; prints what it finds as JSON.

Run as `python checkpoint_probe.py BEFORE AFTER`. Files are read with `weights_only`: no code in them runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import torch


def entries(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested dicts, lists and tuples, each with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from entries(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from entries(item, f"{path}[{index}]")
    else:
        yield path, value


def same(one: Any, other: Any) -> bool:
    """Whether two leaves are the same, tensors bit for bit."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return alike(one, other) and bool(torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)))
    return type(one) is type(other) and bool(one == other or (one != one and other != other))


def alike(one: Any, other: Any) -> bool:
    """Whether two leaves are of one kind: tensors of one type and shape."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape
    return isinstance(one, torch.Tensor) == isinstance(other, torch.Tensor)


def compare(before: str, after: str) -> dict[str, Any]:
    """What the second file lacks, has in another form, has with another value, and has besides."""
    try:
        one, other = (
            dict(entries(torch.load(path, map_location="cpu", weights_only=True))) for path in (before, after)
        )
    except Exception as problem:  # noqa: BLE001 - whatever a stranger's file raises is the answer
        return {"unreadable": f"{type(problem).__name__}: {problem}".split("\n", 1)[0]}
    shared = [name for name in one if name in other]
    return {
        "entries": len(one),
        "missing": [name for name in one if name not in other],
        "unlike": [name for name in shared if not alike(one[name], other[name])],
        "changed": [name for name in shared if not same(one[name], other[name])],
        "extra": [name for name in other if name not in one],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(compare(*sys.argv[1:3])))
