"""Records what each backward and each optimizer step did."""

from __future__ import annotations

import functools
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .naming import names_of
from .orders import Orders
from .places import Places
from .record import Record
from .scaling import Scaling


class Stepping:
    """Counts steps, and writes a line for each backward and each step."""

    def __init__(self, torch: ModuleType, orders: Orders, record: Record, places: Places, scaling: Scaling) -> None:
        self.torch: Any = torch
        self.orders = orders
        self.record = record
        self.places = places
        self.scaling = scaling
        self.step = 0
        # Called with the number of the step that begins next.
        self.between: list[Callable[[int], None]] = []
        self.after_backward: list[Callable[[], None]] = []
        self.before_end: list[Callable[[], None]] = []
        self._depth = 0
        self._optimizers: dict[int, int] = {}
        self._named: set[int] = set()
        self._norm = 0.0
        self._last = 0.0
        self._own_before = 0.0

    def watch(self) -> None:
        """Puts the watcher into torch's backward, its step hooks and its clips."""
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        autograd = self.torch.autograd
        autograd.backward = self._around_backward(autograd.backward)
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        self.scaling.skipped_outside = self._skipped_outside  # type: ignore[method-assign]
        for module in (self.torch.nn.utils, self.torch.nn.utils.clip_grad):
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                setattr(module, name, self._around_clip(getattr(module, name)))

    def _around_clip(self, clip: Any) -> Any:
        @functools.wraps(clip)
        def around(*args: Any, **kwargs: Any) -> Any:
            self.scaling.saw_clip(self.places.here())
            return clip(*args, **kwargs)

        return around

    def _around_backward(self, backward: Any) -> Any:
        @functools.wraps(backward)
        def around(tensors: Any, *args: Any, **kwargs: Any) -> None:
            start = time.perf_counter()
            # A checkpointed layer runs a backward inside of the loss's.
            if self._depth == 0:
                self._saw_backward(tensors)
            self._depth += 1
            self.record.own_seconds += time.perf_counter() - start
            try:
                backward(tensors, *args, **kwargs)
            finally:
                self._depth -= 1
            if self._depth == 0:
                for callback in self.after_backward:
                    callback()

        return around

    def _saw_backward(self, tensors: Any) -> None:
        place = self.places.here()
        self.scaling.saw_backward(place)
        for tensor in tensors if isinstance(tensors, list | tuple) else [tensors]:
            loss = self.scaling.original_of(tensor)
            values = loss.detach()
            value = float(values if values.numel() == 1 else values.double().mean())
            self.record.write("loss", step=self.step, place=place, value=value, dtype=str(loss.dtype)[6:])

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        start = time.perf_counter()
        self.scaling.steps_seen += 1
        self._norm = self._gradient_norm(optimizer)
        self.record.own_seconds += time.perf_counter() - start

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        start = time.perf_counter()
        place = self.places.here()
        self.scaling.saw_step(optimizer, place)
        skipped = self.scaling.active and not math.isfinite(self._norm)
        self._count(optimizer, start, place, skipped)

    def _skipped_outside(self, optimizer: Any) -> None:
        self._norm = self._gradient_norm(optimizer)
        self._count(optimizer, time.perf_counter(), self.places.here(), True)

    def _count(self, optimizer: Any, now: float, place: str, skipped: bool) -> None:
        self.step += 1
        index = self._optimizers.setdefault(id(optimizer), len(self._optimizers))
        watching = self.record.own_seconds - self._own_before
        values: dict[str, Any] = {
            "step": self.step,
            "optimizer": index,
            "name": type(optimizer).__name__,
            "place": place,
            "device": _device(optimizer),
            "rates": [float(group.get("lr", 0.0)) for group in optimizer.param_groups],
            "norm": self._norm,
            "skipped": skipped,
            "scale": self.scaling.current(),
            "seconds": now - self._last - watching if self._last else 0.0,
        }
        if self.orders.digest:
            values["digest"] = self._digest(optimizer, index)
        self.record.write("step", **values)
        for callback in self.between:
            callback(self.step + 1)
        if self.orders.steps and self.step >= self.orders.steps:
            self._leave()
        self._own_before = self.record.own_seconds
        self._last = time.perf_counter()

    def _gradient_norm(self, optimizer: Any) -> float:
        """The 2-norm of all gradients of `optimizer`, as they are at its step."""
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        dense = [grad.coalesce()._values() if grad.is_sparse else grad.detach() for grad in grads]
        if not dense:
            return 0.0
        with self.torch.no_grad():
            norms = [norm.item() for norm in self.torch._foreach_norm(dense)]
        return math.sqrt(sum(norm * norm for norm in norms))

    def _digest(self, optimizer: Any, index: int) -> list[int]:
        """A checksum of the bits of each parameter, in the order of the groups; their names are written once."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if index not in self._named:
            self._named.add(index)
            self.record.write("names", optimizer=index, names=names_of(self.torch, parameters))
        return [_checksum(self.torch, parameter) for parameter in parameters]

    def _leave(self) -> None:
        """Ends the process: the steps that were asked for are done, and what the script does after them is not."""
        self.end("steps")
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)

    def end(self, reason: str) -> None:
        """Writes the last lines of this process."""
        for callback in self.before_end:
            callback()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        cuda = self.torch.cuda
        used = cuda.is_available() and cuda.is_initialized()
        self.record.write(
            "end",
            reason=reason,
            peak=cuda.max_memory_allocated() if used else peak,
            memory="cuda" if used else "process",
        )
        self.record.flush()


def _device(optimizer: Any) -> str:
    return next((str(p.device.type) for group in optimizer.param_groups for p in group["params"]), "")


def _checksum(torch: Any, parameter: Any) -> int:
    """The sum of the parameter's bits, read as integers; one bit more or less changes it."""
    data = parameter.detach()
    if data.is_sparse:
        data = data.coalesce()._values()
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    if data.is_complex():
        data = torch.view_as_real(data)
    with torch.no_grad():
        return int(data.contiguous().view(kinds[data.element_size()]).sum(dtype=torch.int64))
