"""Owns how a model with reduced weights is saved, loaded and copied: in fp32, from its masters where it has them."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import torch
from torch import nn

from .hooks import Hook
from .links import REDUCED, absorb, link_of

_NAMES = ("__deepcopy__", "__reduce_ex__")


class SaveInFloat(Hook):
    """After a module's part of `state_dict()`: the weights in fp32. They are the masters' own where there are such."""

    is_copied = False

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            value = state.get(prefix + name)
            if tensor is not None and isinstance(value, torch.Tensor) and value.dtype in REDUCED:
                saved = up_to_date(tensor)
                state[prefix + name] = saved if value.requires_grad else saved.detach()


class LoadIntoMasters(Hook):
    """Before a module's part of `load_state_dict()`: masters take the values before they are rounded."""

    is_copied = False

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any, *_: Any) -> None:
        for name, parameter in module._parameters.items():
            value = state.get(prefix + name)
            link = None if parameter is None else link_of(parameter)
            if link is None or not isinstance(value, torch.Tensor):
                continue
            if metadata.get("assign_to_params_buffers"):
                raise RuntimeError(
                    f"ampify: load_state_dict(assign=True) would replace {prefix + name}, which the optimizer's master "
                    "weights belong to; load without assign, or before amp.initialize"
                )
            if value.shape == link.master.shape:
                with torch.no_grad():
                    link.master.copy_(value)


class _Twin:
    """Stands on a reduced tensor as its `__deepcopy__`: a copy is in fp32, and nobody's slave.

    Averages of weights (EMA) are kept in copies, and in float16 they would stand still. With the optimizer copied
    along, the copied master is the copied model's parameter.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = weakref.ref(tensor)

    def __call__(self, memo: dict[int, Any]) -> torch.Tensor:
        tensor = self.tensor()
        assert tensor is not None
        link = link_of(tensor)
        if link is None:
            return _free_copy(tensor)
        absorb(tensor, link)
        twin: torch.Tensor = copy.deepcopy(link.master, memo)
        return twin.requires_grad_(tensor.requires_grad)


class _Pickle(_Twin):
    """Stands on a reduced tensor as its `__reduce_ex__`: a pickle of it is one of an fp32 tensor."""

    __slots__ = ()

    def __call__(self, protocol: Any) -> Any:
        tensor = self.tensor()
        assert tensor is not None
        return _free_copy(tensor).__reduce_ex__(protocol)  # type: ignore[no-untyped-call]


def save_in_float(module: nn.Module) -> list[Any]:
    """Have `module`'s own weights, not those of modules inside it, saved and copied in fp32; handles to undo it."""
    for tensor in _reduced(module):
        vars(tensor).update(__deepcopy__=_Twin(tensor), __reduce_ex__=_Pickle(tensor))
    untyped: Any = module
    return [
        untyped._register_state_dict_hook(SaveInFloat()),
        untyped._register_load_state_dict_pre_hook(LoadIntoMasters(), with_module=True),
    ]


def save_as_is(module: nn.Module) -> None:
    """Undo what `save_in_float` did to the tensors of `module`."""
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        if tensor is not None:
            for name in _NAMES:
                vars(tensor).pop(name, None)


def _reduced(module: nn.Module) -> list[torch.Tensor]:
    tensors = (*module._parameters.values(), *module._buffers.values())
    return [tensor for tensor in tensors if tensor is not None and tensor.dtype in REDUCED]


def up_to_date(tensor: torch.Tensor) -> torch.Tensor:
    """A reduced tensor's value in fp32: its master itself, up to date, or a converted copy."""
    link = link_of(tensor)
    if link is None:
        return tensor.float()
    if tensor._version != link.model_version:
        absorb(tensor, link)
    return link.master


def _free_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of its own in fp32, a parameter if `tensor` is one."""
    data = up_to_date(tensor).detach().clone().float()
    return nn.Parameter(data, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else data
