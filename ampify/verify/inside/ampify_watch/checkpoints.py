"""Notes which checkpoints a script saves and loads."""

from __future__ import annotations

import functools
import os
from typing import Any

from .places import Places
from .record import Record
from .writes import Writes


def follow_checkpoints(torch: Any, record: Record, places: Places, writes: Writes, step_now: Any) -> None:
    """Stands between the script and `torch.save` and `torch.load`.

    torch opens files without Python's knowledge, so the writes are prepared here, too.
    """
    save, load = torch.save, torch.load

    @functools.wraps(save)
    def around_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        writes.prepare(f)
        result = save(obj, f, *args, **kwargs)
        path = _path(f)
        if path and record.begun:
            record.write("save", path=path, place=places.here(), step=step_now())
        return result

    @functools.wraps(load)
    def around_load(f: Any, *args: Any, **kwargs: Any) -> Any:
        result = load(f, *args, **kwargs)
        path = _path(f)
        if path:
            record.write("load", path=path, place=places.here(), step=step_now())
        return result

    torch.save = torch.serialization.save = around_save
    torch.load = torch.serialization.load = around_load


def _path(file: Any) -> str:
    name = file if isinstance(file, str | os.PathLike) else getattr(file, "name", "")
    return os.path.realpath(name) if isinstance(name, str | os.PathLike) and name else ""
