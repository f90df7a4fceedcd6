"""Owns the watch for backward passes outside of `scale_loss`, whose gradients a scaled step must not take."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from .agreement import see_wrap
from .enrolment import Enrolment, Unscaled, enrolled
from .gradients import parameters_of
from .hooks import ForwardHook, hide_hooks
from .notices import line_of_caller

Seen = list[tuple[torch.Tensor, torch.Tensor | None, int]]


@dataclass(slots=True)
class _State:
    # Threads with an open block: what their backwards make is scaled.
    in_blocks: set[int] = field(default_factory=set)
    # The backward pass that is watched, by torch's number of it, and the gradients from before it.
    task: int | None = None
    before: list[tuple[Enrolment, Seen]] = field(default_factory=list)
    where: str = ""
    has_marks: bool = False


_state = _State()
_watched: weakref.WeakKeyDictionary[nn.Module, RemovableHandle] = weakref.WeakKeyDictionary()


class _Watch(ForwardHook):
    """After a model's forward: see its parallel wrap, and be told when a backward comes through its outputs.

    A hook on the outputs costs microseconds a step, one on each parameter a fifth of the backward.
    """

    __slots__ = ("scales",)

    def __init__(self, scales: bool) -> None:
        self.scales = scales

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or not torch.is_grad_enabled() or torch._C._get_tracing_state() is not None:
            return
        see_wrap(module)
        if not self.scales:
            return
        notice = _Notice(threading.get_ident())
        for tensor in (output,) if isinstance(output, torch.Tensor) else _tensors_in(output):
            # torch makes an object of the node each time it is asked for.
            node = tensor.grad_fn
            if node is not None:
                # On the node: a hook on the tensor costs more.
                node.register_prehook(notice)


class _Notice:
    """Called as a backward gets to an output of a watched model, in whichever thread torch runs that."""

    __slots__ = ("thread",)

    def __init__(self, thread: int) -> None:
        self.thread = thread

    def __call__(self, grads: Any) -> None:
        if self.thread in _state.in_blocks:
            forget_zeroed()
            return
        task = torch._C._current_graph_task_id()
        if task == _state.task:
            return
        watched = [(o, e) for o, e in enrolled() if e.policy.scales and e.thread == self.thread and e.unscaled is None]
        if not watched:
            return
        _state.task = task
        _state.where = line_of_caller(self.thread)
        _state.before = [(enrolment, _seen(optimizer, enrolment)) for optimizer, enrolment in watched]
        torch.autograd.Variable._execution_engine.queue_callback(_compare)


def watch_backwards(model: nn.Module, scales: bool) -> None:
    """From now on, notice the parallel wrap of `model` and, if losses are scaled, backwards outside of a block."""
    if model not in _watched and not isinstance(model, torch.jit.ScriptModule):
        _watched[model] = model.register_forward_hook(_Watch(scales))
        hide_hooks(model)


def stop_watching(model: nn.Module) -> None:
    """Undo `watch_backwards`."""
    handle = _watched.pop(model, None)
    if handle is not None:
        handle.remove()


def backwards_are_scaled(scaled: bool) -> None:
    """Whether backwards of this thread are scaled from now on."""
    (_state.in_blocks.add if scaled else _state.in_blocks.discard)(threading.get_ident())


def forget_zeroed() -> None:
    """Forget unscaled gradients that are gone: adversarial examples and the like are made, and zeroed after."""
    if not _state.has_marks:
        return
    marked = [enrolment for _, enrolment in enrolled() if enrolment.unscaled is not None]
    for enrolment in marked:
        if enrolment.unscaled is not None and not _is_left(enrolment.unscaled):
            enrolment.unscaled = None
    _state.has_marks = any(enrolment.unscaled is not None for enrolment in marked)


def refuse_unscaled(enrolment: Enrolment) -> None:
    """Raise RuntimeError if the gradients that are to be stepped on are an unscaled backward's too."""
    forget_zeroed()
    if enrolment.unscaled is None:
        return
    raise RuntimeError(
        f"{enrolment.name}.step: its gradients include those of a backward outside of amp.scale_loss "
        f"({enrolment.unscaled.where}), unscaled, where small float16 gradients vanish; run that backward inside "
        "`with amp.scale_loss(loss, optimizer) as scaled_loss:`, or zero the gradients after it if they are not "
        "to be stepped on"
    )


def _compare() -> None:
    """After an unscaled backward: mark the optimizers whose gradients it changed."""
    before, _state.before, _state.task = _state.before, [], None
    for enrolment, seen in before:
        changed = [(p, p.grad) for p, grad, version in seen if _is_other(p.grad, grad, version)]
        grads = [(weakref.ref(p), weakref.ref(grad)) for p, grad in changed if grad is not None]
        if grads:
            enrolment.unscaled = Unscaled(_state.where, grads)
            _state.has_marks = True


def _seen(optimizer: Optimizer, enrolment: Enrolment) -> Seen:
    masters = enrolment.masters
    parameters = list(parameters_of(optimizer))
    if masters is not None:
        parameters += [parameter for parameter, _ in masters.pairs]
    return [(p, p.grad, -1 if p.grad is None else p.grad._version) for p in parameters]


def _is_other(now: torch.Tensor | None, before: torch.Tensor | None, version: int) -> bool:
    return now is not None and (now is not before or now._version != version)


def _is_left(unscaled: Unscaled) -> bool:
    for parameter_ref, grad_ref in unscaled.grads:
        parameter, grad = parameter_ref(), grad_ref()
        if parameter is None or grad is None or parameter.grad is not grad:
            continue
        if bool((grad._values() if grad.is_sparse else grad).any()):
            return True
    return False


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors_in(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            yield from _tensors_in(getattr(value, name, None))
