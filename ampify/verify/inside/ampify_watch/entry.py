"""Begins watching: follows the orders in the environment as the modules they concern arrive."""

from __future__ import annotations

import atexit
import functools
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from .arrival import ANYWHERE, on_arrival
from .checkpoints import follow_checkpoints
from .nonfinite import Finder
from .orders import Orders, read_orders
from .places import Places
from .precision import Precision
from .record import Record
from .scaling import Scaling
from .seeding import seed_numpy, seed_python, seed_torch
from .stepping import Stepping
from .writes import Writes


def begin() -> None:
    """Watches this process, if the environment asks for it."""
    orders = read_orders()
    if orders is None:
        return
    record = Record(orders.folder)
    places = Places(orders.tree)
    scaling = Scaling(record, places)
    writes = Writes(orders, record)
    _look_in_the_copy(orders)
    seed_python(orders)
    writes.watch()
    on_arrival(
        {
            "numpy": functools.partial(seed_numpy, orders=orders),
            "torch": functools.partial(
                _watch_torch, orders=orders, record=record, places=places, scaling=scaling, writes=writes
            ),
            f"{ANYWHERE}ampify_runtime.amp": scaling.follow_runtime,
        }
    )
    _tell_of_exceptions(record, places)


def _watch_torch(
    torch: ModuleType, orders: Orders, record: Record, places: Places, scaling: Scaling, writes: Writes
) -> None:
    seed_torch(torch, orders)
    if orders.plain:
        _switch_off_amp(torch)
    scaling.follow_torch(torch)
    stepping = Stepping(torch, orders, record, places, scaling)
    if orders.sample:
        stepping.between.append(Precision(torch, record, orders.sample).begin_step)
    if orders.find:
        finder = Finder(torch, record)
        finder.watch()
        stepping.between.append(finder.begin_step)
        stepping.after_backward.append(finder.look_at_gradients)
    stepping.watch()
    follow_checkpoints(torch, record, places, writes, lambda: stepping.step)
    stepping.before_end.append(lambda: record.write("modules", foreign=_foreign_modules(orders)))
    atexit.register(_end, record, stepping)


def _end(record: Record, stepping: Stepping) -> None:
    if record.begun:
        stepping.end("exit")


def _switch_off_amp(torch: Any) -> None:
    """Has torch's autocast and GradScaler do nothing, whatever the script asks of them."""
    autocast, scaler = torch.amp.autocast_mode.autocast, torch.amp.GradScaler
    enter, make = autocast.__init__, scaler.__init__

    @functools.wraps(enter)
    def without_casts(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        enter(self, device_type, enabled=False)

    @functools.wraps(make)
    def without_scaling(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **{**kwargs, "enabled": False})

    autocast.__init__ = without_casts
    scaler.__init__ = without_scaling


def _look_in_the_copy(orders: Orders) -> None:
    """Has an editable install of the project, which the interpreter's path names, mean the copy."""
    root = os.path.realpath(orders.root)
    for index, entry in enumerate(sys.path):
        real = os.path.realpath(entry) if entry else ""
        if real == root or real.startswith(root + os.sep):
            copied = orders.tree + real[len(root) :]
            if "site-packages" not in Path(real).parts and os.path.isdir(copied):  # noqa: PTH112
                sys.path[index] = copied


def _foreign_modules(orders: Orders) -> list[str]:
    """Modules that came from the project itself instead of from the copy: they are not what is to be watched."""
    root = os.path.join(os.path.realpath(orders.root), "")  # noqa: PTH118
    tree = os.path.join(os.path.realpath(orders.tree), "")  # noqa: PTH118
    files = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    real = ((name, os.path.realpath(file)) for name, file in files if isinstance(file, str))
    return sorted(
        name
        for name, file in real
        if file.startswith(root)
        and not file.startswith(tree)
        and not {"site-packages", "ampify_runtime"} & set(Path(file).parts)
    )


def _tell_of_exceptions(record: Record, places: Places) -> None:
    shown = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        lines = ((places.within(frame.filename), frame.lineno) for frame in traceback.extract_tb(trace))
        frames = [f"{path}:{line}" for path, line in lines if path]
        record.write("error", type=kind.__name__, message=str(error), frames=frames)
        shown(kind, error, trace)

    sys.excepthook = tell
