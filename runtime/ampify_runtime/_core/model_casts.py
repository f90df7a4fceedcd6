"""Owns models whose weights are cast: to float16 or bfloat16, norms apart, with inputs and outputs cast to fit."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.utils.hooks import RemovableHandle

from .cast_tree import cast_floats
from .enrolment import enrolled
from .hooks import ForwardHook, hide_hooks, show_hooks
from .links import REDUCED, keep_original, publish_edited
from .norms import is_norm, takes_reduced_inputs
from .notices import warn
from .regions import close_region, is_open, open_region
from .saving import save_as_is, save_in_float, up_to_date

_handles: weakref.WeakKeyDictionary[nn.Module, list[RemovableHandle]] = weakref.WeakKeyDictionary()
# Models by how they were cast: to what, with which outputs, norms kept or not.
_cast_so: weakref.WeakKeyDictionary[nn.Module, tuple[Any, ...]] = weakref.WeakKeyDictionary()
_MARK = "_ampify_cast_from"


class _CastInputs(ForwardHook):
    """Before the forward of a model: floating inputs as its weights are, unless this is inside of such a model.

    And weights as their masters are, which a script may have changed.
    """

    __slots__ = ("dtype",)
    is_copied = False

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        compiling = torch.compiler.is_compiling()
        if not compiling and open_region(module, _CastInputs, sys._getframe(1)) is None:
            return None
        if not compiling:
            for _, enrolment in enrolled():
                if enrolment.masters is not None:
                    publish_edited(enrolment.masters.pairs)
        return cast_floats(args, self.dtype), cast_floats(kwargs, self.dtype)


class _CastOutputs(ForwardHook):
    """After the forward of a model: floating outputs as asked for."""

    __slots__ = ("dtype",)
    is_copied = False

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        if not torch.compiler.is_compiling():
            close_region(module)
            if is_open(_CastInputs):
                return None
        return cast_floats(output, self.dtype)


class _CastNormInputs(ForwardHook):
    """Before the forward of a norm kept in fp32: reduced inputs in fp32."""

    __slots__ = ()
    is_copied = False

    def __call__(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        inputs = cast_floats(args, torch.float32)
        if not torch.compiler.is_compiling():
            for before, after in zip(args, inputs, strict=True):
                if isinstance(before, torch.Tensor) and after is not before:
                    # On the tensor: it comes back to the hook below, in whichever thread.
                    setattr(after, _MARK, before.dtype)
        return inputs, cast_floats(kwargs, torch.float32)


class _CastNormOutputs(ForwardHook):
    """After the forward of a norm kept in fp32: outputs as its inputs were."""

    __slots__ = ("dtype",)
    is_copied = False

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        if torch.compiler.is_compiling():
            return cast_floats(output, self.dtype)
        marks = (getattr(arg, _MARK, None) for arg in args)
        dtype = next((mark for mark in marks if mark is not None), None)
        return output if dtype is None else cast_floats(output, dtype)


def cast_model(model: nn.Module, dtype: torch.dtype, output_dtype: torch.dtype, keeps_norms: bool) -> None:
    """Cast `model`'s floating parameters and buffers in place, and its inputs and outputs from now on.

    `keeps_norms`: norms of every kind (see `is_norm`) stay in fp32 and compute in it. The fp32 values are kept for
    masters to be made of. A model that is cast so already stays as it is.
    """
    how = (dtype, output_dtype, keeps_norms)
    norms = [module for module in model.modules() if keeps_norms and is_norm(module)]
    kept = {id(tensor) for norm in norms for tensor in (*norm.parameters(), *norm.buffers())}
    named = (*model.named_parameters(), *model.named_buffers())
    cast = [(name, tensor) for name, tensor in named if tensor.is_floating_point() and id(tensor) not in kept]
    # Not all are if an optimizer of it has let go of its masters, or layers were added.
    if _cast_so.get(model) == how and all(tensor.dtype is dtype for _, tensor in cast):
        return
    inner = [module for module in model.modules() if module is not model and _cast_so.get(module) == how]
    uncast_model(model)
    for name, tensor in cast:
        _cast_tensor(name, tensor, dtype)
    for module in model.modules():
        _handles.setdefault(module, []).extend(save_in_float(module))
    for norm in norms:
        if not takes_reduced_inputs(norm):
            _hook(norm, _CastNormInputs(), _CastNormOutputs(dtype))
    # Models inside of it, initialized before it, may be called by themselves.
    for module in (*inner, model):
        _hook(module, _CastInputs(dtype), _CastOutputs(output_dtype))
    for module in model.modules():
        hide_hooks(module)
    _cast_so[model] = how


def cast_outputs(model: nn.Module, dtype: torch.dtype) -> None:
    """Cast the floating outputs of a model whose weights stay as they are, in place of what was set before."""
    _handles[model] = [model.register_forward_hook(_CastOutputs(dtype), prepend=True)]
    hide_hooks(model)


def uncast_model(model: nn.Module) -> None:
    """Take back what was done to `model`: its weights are fp32 again, and its forward is its own."""
    was_cast = _cast_so.pop(model, None) is not None
    for module in model.modules():
        handles = _handles.pop(module, None)
        if handles is None:
            continue
        for handle in handles:
            handle.remove()
        show_hooks(module)
        if was_cast:
            save_as_is(module)
            _restore(module)


def _restore(module: nn.Module) -> None:
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        if tensor is not None and tensor.dtype in REDUCED:
            tensor.data = up_to_date(tensor).data
            tensor.grad = None


def _hook(module: nn.Module, before: Any, after: Any) -> None:
    _handles[module] += [
        module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        module.register_forward_hook(after, prepend=True, always_call=True),
    ]


def _cast_tensor(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    original = tensor.data
    cast = original.to(dtype)
    if dtype is torch.float16 and bool((cast.isinf() & original.isfinite()).any()):
        warn(
            f"amp.initialize: {name} has values beyond float16's 65504, which become infinite; use opt level O5 or O4 "
            "(bfloat16), or O1"
        )
    if isinstance(tensor, nn.Parameter) and original.dtype not in REDUCED:
        keep_original(tensor, original.float())
    tensor.data = cast
    if tensor.grad is not None:
        tensor.grad = tensor.grad.to(dtype)


def refuse_uncastable(model: nn.Module) -> None:
    """Raise ValueError if `model`'s weights cannot be cast, naming what stands in the way."""
    for name, module in model.named_modules():
        kind = type(module).__name__
        where = f"{name} is in " if name else "the model is in "
        if isinstance(module, (DataParallel, DistributedDataParallel)) or kind == "FullyShardedDataParallel":
            raise ValueError(
                f"amp.initialize: {where}{kind} already, which was built on the weights as they are now; this opt "
                "level casts them: call amp.initialize first and wrap what it returns, or use O1 or O4"
            )
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError(
                f"amp.initialize: {name or 'the model'} is scripted, and takes no hooks that cast its inputs; call "
                "amp.initialize first, or use O1 or O4"
            )
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise ValueError(
                f"amp.initialize: {name} has no shape yet (a lazy module); run one forward first, or use O1 or O4"
            )
        if type(parameter).__name__ == "DTensor":
            raise ValueError(
                f"amp.initialize: {name} is sharded (DTensor), and this opt level casts whole weights; use O1 or O4"
            )
