"""Watches a script train, and tells which steps consume what no `amp` call promised them.

It sees real backward passes and real steps of torch: which
parameters a pass gave gradients, and which optimizer used them; `amp.initialize` and `amp.scale_loss` do their work and
are listened to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from ampify_runtime import amp
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

Place = tuple[str, int]


@dataclass(eq=False, slots=True)
class Pass:
    """A backward pass; `given` are the optimizers it was scaled for, None where it was not scaled."""

    place: Place
    given: tuple[Optimizer, ...] | None


@dataclass(slots=True, eq=False)
class Witness:
    """What was seen: the places of passes that some step consumed, and all that went wrong."""

    folder: Path
    consumed: set[Place] = field(default_factory=set)
    wrong: dict[str, None] = field(default_factory=dict)
    initialized: list[Optimizer] = field(default_factory=list)
    _pending: dict[torch.Tensor, list[Pass]] = field(default_factory=dict)
    _given: list[tuple[Optimizer, ...]] = field(default_factory=list)
    _running: Pass | None = None

    @contextmanager
    def installed(self) -> Iterator[Witness]:
        """Watches for the time of a block."""
        hook = register_optimizer_step_pre_hook(self._stepping)
        try:
            with (
                patch.object(torch.autograd, "backward", self._watched(torch.autograd.backward)),
                patch.object(Optimizer, "add_param_group", self._watching(Optimizer.add_param_group)),
                patch.object(amp, "initialize", self._initializing(amp.initialize)),
                patch.object(amp, "scale_loss", self._scaling(amp.scale_loss)),
            ):
                yield self
        finally:
            hook.remove()

    def place(self) -> Place:
        """The innermost line of the script, as its file is called in the project."""
        frame = sys._getframe()
        while frame.f_back is not None and self.folder not in Path(frame.f_code.co_filename).parents:
            frame = frame.f_back
        return (Path(frame.f_code.co_filename).relative_to(self.folder).as_posix(), frame.f_lineno)

    def _watched(self, backward: Callable[..., None]) -> Callable[..., None]:
        def watched(*args: Any, **kwargs: Any) -> None:
            self._running = Pass(self.place(), self._given[-1] if self._given else None)
            backward(*args, **kwargs)

        return watched

    def _watching(self, add: Callable[..., None]) -> Callable[..., None]:
        def watching(optimizer: Optimizer, group: dict[str, Any]) -> None:
            add(optimizer, group)
            for parameter in group["params"]:
                if parameter not in self._pending and parameter.requires_grad:
                    self._pending[parameter] = []
                    parameter.register_hook(self._before(parameter))
                    parameter.register_post_accumulate_grad_hook(self._after)

        return watching

    def _before(self, parameter: torch.Tensor) -> Callable[[torch.Tensor], None]:
        def before(gradient: torch.Tensor) -> None:
            if not has_gradient(parameter):
                self._pending[parameter].clear()

        return before

    def _after(self, parameter: torch.Tensor) -> None:
        if self._running is not None:
            self._pending[parameter].append(self._running)

    def _stepping(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for parameter in parameters(optimizer):
            for passed in self._pending.get(parameter, ()) if has_gradient(parameter) else ():
                self.consumed.add(passed.place)
                self._judge(optimizer, passed)

    def _judge(self, optimizer: Optimizer, passed: Pass) -> None:
        name, where = type(optimizer).__name__, "{}:{}".format(*passed.place)
        known = any(o is optimizer for o in self.initialized)
        if passed.given is None and known:
            self.wrong[f"{name} is initialized and steps on the unscaled backward of {where}"] = None
        elif passed.given is not None and not any(o is optimizer for o in passed.given):
            self.wrong[f"{name} steps on the backward of {where}, scaled for others"] = None

    def _initializing(self, initialize: Callable[..., Any]) -> Callable[..., Any]:
        def initializing(models: Any, optimizers: Any, *args: Any, **kwargs: Any) -> Any:
            held = {p for model in several(models) for p in model.parameters()}
            for optimizer in several(optimizers):
                name = type(optimizer).__name__
                if not held.issuperset(parameters(optimizer)):
                    self.wrong[f"{name} is initialized without the model it trains"] = None
                self.initialized.append(optimizer)
            if not several(optimizers):
                self.wrong["amp.initialize is given no optimizer"] = None
            return initialize(models, optimizers, *args, **kwargs)

        return initializing

    def _scaling(self, scale_loss: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def scaling(loss: Any, optimizers: Any = None, *args: Any, **kwargs: Any) -> Iterator[Any]:
            self._given.append(tuple(self.initialized if optimizers is None else several(optimizers)))
            try:
                with scale_loss(loss, optimizers, *args, **kwargs) as scaled:
                    yield scaled
            finally:
                self._given.pop()

        return scaling


def has_gradient(parameter: torch.Tensor) -> bool:
    """Whether a parameter holds a gradient that is not just zero."""
    return parameter.grad is not None and bool(parameter.grad.ne(0).any())


def parameters(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    """All that an optimizer updates."""
    for group in optimizer.param_groups:
        yield from group["params"]


def several(given: Any) -> list[Any]:
    """One object or an iterable of them, as a list."""
    alone = isinstance(given, torch.nn.Module | Optimizer) or not isinstance(given, Iterable)
    return [given] if alone else list(given)
