"""Owns the hooks that cast a model's forward: a real autocast region, in whichever thread runs it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.utils.data import get_worker_info
from torch.utils.hooks import RemovableHandle

from . import ambient
from .hooks import ForwardHook, hide_hooks, show_hooks
from .regions import close_region, open_region

_hooked: weakref.WeakKeyDictionary[nn.Module, tuple[RemovableHandle, ...]] = weakref.WeakKeyDictionary()


class _Enter(ForwardHook):
    """Before the forward: enter autocast, unless this is inside of another model's forward."""

    __slots__ = ("device_type", "dtype", "enabled")

    def __init__(self, device_type: str, dtype: torch.dtype) -> None:
        self.device_type = device_type
        self.dtype = dtype
        # torch's checks, once: it raises or warns, and may cast nothing, for a type that the device does not have.
        self.enabled = torch.autocast(device_type, dtype=dtype)._enabled

    def __call__(self, module: nn.Module, args: Any) -> None:
        # While compiling, the casts of the surrounding code are compiled in.
        if torch.compiler.is_compiling():
            return
        exits = open_region(module, _Enter, sys._getframe(1))
        if exits is None or ambient.is_banned(self.device_type):
            return
        if not ambient.is_established(self.device_type):
            if get_worker_info() is not None:
                return
            ambient.establish(self.device_type, self.dtype)
        exits.callback(ambient.leave_casts, ambient.enter_casts(self.device_type, self.enabled, self.dtype))


class _Leave(ForwardHook):
    """After the forward, also after one that raised: leave what was entered before it."""

    __slots__ = ()

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        if not torch.compiler.is_compiling():
            close_region(module)


def cast_forwards(model: nn.Module, device_type: str, dtype: torch.dtype) -> None:
    """Run `model`'s forward, from now on, under autocast to `dtype`, in place of what was set before."""
    leave_forwards_alone(model)
    for module in _with_wrapped(model):
        # A scripted module takes no hooks; it is cast as code outside of the models is.
        if isinstance(module, torch.jit.ScriptModule):
            continue
        _hooked[module] = (
            module.register_forward_pre_hook(_Enter(device_type, dtype), prepend=True),
            module.register_forward_hook(_Leave(), always_call=True),
        )
        hide_hooks(module)


def leave_forwards_alone(model: nn.Module) -> None:
    """Take back what `cast_forwards` did to `model`."""
    for module in _with_wrapped(model):
        for handle in _hooked.pop(module, ()):
            handle.remove()
            show_hooks(module)


def _with_wrapped(model: nn.Module) -> Iterator[nn.Module]:
    """`model`, and the module inside it if it is a parallel wrap.

    DataParallel runs replicas of the inner one in threads of its own, which know of no autocast type but the default.
    """
    yield model
    if isinstance(model, (DataParallel, DistributedDataParallel)):
        yield model.module
