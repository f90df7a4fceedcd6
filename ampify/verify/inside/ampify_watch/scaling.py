"""Follows losses through their scaling, by `ampify_runtime.amp` or by torch's GradScaler, and sees scaling go wrong."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from .places import Places
from .record import Record


class Scaling:
    """What is known of the scale at the moment: of this loss, of these gradients, for these optimizers."""

    def __init__(self, record: Record, places: Places) -> None:
        self.record = record
        self.places = places
        # Whether losses are multiplied by anything but 1 in this run.
        self.active = False
        # Whether gradients are scaled as they are now.
        self.gradients_scaled = False
        self.scale_now: Any = None
        self._originals: dict[int, tuple[Any, Any]] = {}
        self._open = 0
        self._initialized: weakref.WeakSet[Any] = weakref.WeakSet()
        self._named: weakref.WeakSet[Any] = weakref.WeakSet()
        self._unscaled_backward = ""
        self._last_block = ""

    def original_of(self, loss: Any) -> Any:
        """The loss that `loss` is a multiple of, if it was scaled; else `loss` itself."""
        known = self._originals.get(id(loss))
        return known[1] if known is not None and known[0]() is loss else loss

    def current(self) -> float:
        """The scale of losses as it is now; 1.0 where they are not scaled."""
        return float(self.scale_now()) if self.scale_now is not None and self.active else 1.0

    def saw_backward(self, place: str) -> None:
        """Takes note of a backward; one outside of all blocks is not scaled."""
        if self.active and self._initialized and not self._open:
            self._unscaled_backward = place

    def saw_clip(self, place: str) -> None:
        """Takes note of a clip, which is a fault while gradients are scaled."""
        if self.active and (self.gradients_scaled or self._open):
            kind = "clip-in-block" if self._initialized else "clip-before-unscale"
            self.fault(kind, place, "gradients are clipped while they are scaled")

    def saw_step(self, optimizer: Any, place: str) -> None:
        """Takes note of a step: an initialized optimizer must have been named by a block since its last one."""
        if self.active and optimizer in self._initialized and optimizer not in self._named:
            name = type(optimizer).__name__
            if self._unscaled_backward:
                message = f"a backward outside of every amp.scale_loss block comes before this step of {name}"
                self.fault("unscaled-backward", self._unscaled_backward, message)
            elif self._last_block:
                message = f"amp.scale_loss is given another optimizer than the {name} that steps at {place}"
                self.fault("wrong-optimizer", self._last_block, message)
        self._named.discard(optimizer)
        self._unscaled_backward = ""
        self.gradients_scaled = False

    def fault(self, fault: str, place: str, message: str) -> None:
        """Records a fault in the use of amp."""
        self.record.write("fault", fault=fault, place=place, message=message)

    def follow_runtime(self, amp: ModuleType) -> None:
        """Stands between the script and `ampify_runtime.amp`."""
        amp.initialize = self._around_initialize(amp.initialize, amp)  # type: ignore[attr-defined]
        amp.scale_loss = self._around_scale_loss(amp.scale_loss)  # type: ignore[attr-defined]

    def follow_torch(self, torch: ModuleType) -> None:
        """Stands between the script and torch's GradScaler."""
        scaler = torch.amp.GradScaler
        for name in ("scale", "unscale_", "step"):
            setattr(scaler, name, getattr(self, f"_around_{name.strip('_')}")(getattr(scaler, name)))

    def _around_initialize(self, initialize: Any, amp: Any) -> Any:
        @functools.wraps(initialize)
        def around(models: Any, optimizers: Any = None, *args: Any, **kwargs: Any) -> Any:
            result = initialize(models, optimizers, *args, **kwargs)
            self._initialized.update(_listed(optimizers))
            self.scale_now = amp.loss_scale
            self.active = amp.loss_scale() != 1.0
            self.record.write("initialize", place=self.places.here(), scale=amp.loss_scale())
            return result

        return around

    def _around_scale_loss(self, scale_loss: Any) -> Any:
        @functools.wraps(scale_loss)
        @contextmanager
        def around(loss: Any, optimizers: Any = None, *args: Any, **kwargs: Any) -> Iterator[Any]:
            place = self.places.here()
            with scale_loss(loss, optimizers, *args, **kwargs) as scaled:
                self._remember(scaled, loss)
                self._last_block = place
                self._named.update(self._initialized if optimizers is None else _listed(optimizers))
                self._open += 1
                try:
                    yield scaled
                finally:
                    self._open -= 1
                    self.gradients_scaled = bool(kwargs.get("delay_unscale", args[2:3] == (True,)))

        return around

    def _around_scale(self, scale: Any) -> Any:
        @functools.wraps(scale)
        def around(scaler: Any, outputs: Any) -> Any:
            scaled = scale(scaler, outputs)
            if scaler.is_enabled():
                self._remember(scaled, outputs)
                self.active = self.gradients_scaled = True
                self.scale_now = scaler.get_scale
            return scaled

        return around

    def _around_unscale(self, unscale: Any) -> Any:
        @functools.wraps(unscale)
        def around(scaler: Any, optimizer: Any) -> Any:
            self.gradients_scaled = False
            return unscale(scaler, optimizer)

        return around

    def _around_step(self, step: Any) -> Any:
        @functools.wraps(step)
        def around(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            seen = self.steps_seen
            result = step(scaler, optimizer, *args, **kwargs)
            if scaler.is_enabled() and self.steps_seen == seen:
                self.skipped_outside(optimizer)
            return result

        return around

    # Of the steps' own watcher: how many there were, and what to do about one that GradScaler left out.
    steps_seen = 0

    def skipped_outside(self, optimizer: Any) -> None:
        """Called for a step that GradScaler did not take."""

    def _remember(self, scaled: Any, loss: Any) -> None:
        for one, other in zip(_listed(scaled), _listed(loss), strict=False):
            if one is not other:
                self._originals[id(one)] = (weakref.ref(one, functools.partial(self._drop, id(one))), other.detach())

    def _drop(self, key: int, reference: Any) -> None:
        known = self._originals.get(key)
        if known is not None and known[0] is reference:
            del self._originals[key]


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]
