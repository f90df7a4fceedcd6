"""Owns models in half precision, and the copying between their parameters and fp32 masters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.nn.utils import clip_grad_norm_ as clip_grad_norm

__all__ = [
    "BN_convert_float",
    "FP16Model",
    "clip_grad_norm",
    "convert_module",
    "convert_network",
    "master_params_to_model_params",
    "model_grads_to_master_grads",
    "network_to_half",
    "prep_param_lists",
    "to_python_float",
    "tofp16",
]

_BatchNorm = nn.modules.batchnorm._BatchNorm
Tensors = Sequence[torch.Tensor]


class tofp16(nn.Module):  # noqa: N801 - apex's name
    """Casts its input to float16."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`input` in float16."""
        return input.half()


class FP16Model(nn.Module):
    """`network` converted to float16, batch norms with parameters left out; inputs are cast to float16."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = convert_network(network, torch.half)

    def forward(self, *inputs: torch.Tensor) -> Any:
        """What the network makes of `inputs` in float16."""
        return self.network(*(tensor.half() for tensor in inputs))


def BN_convert_float(module: nn.Module) -> nn.Module:  # noqa: N802 - apex's name
    """`module`, with the batch norms in it that have parameters converted to float32."""
    for part in module.modules():
        if _stays_fp32(part):
            part.float()
    return module


def network_to_half(network: nn.Module) -> nn.Module:
    """`network` converted to float16, batch norms with parameters left out, behind a cast of its input to float16."""
    return nn.Sequential(tofp16(), BN_convert_float(network.half()))


def convert_module(module: nn.Module, dtype: torch.dtype) -> None:
    """Convert parameters, their gradients and buffers of `module` itself, not of its children, if they are floats."""
    for parameter in module.parameters(recurse=False):
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(dtype)
        if parameter.grad is not None and parameter.grad.is_floating_point():
            parameter.grad.data = parameter.grad.data.to(dtype)
    for buffer in module.buffers(recurse=False):
        if buffer.is_floating_point():
            buffer.data = buffer.data.to(dtype)


def convert_network(network: nn.Module, dtype: torch.dtype) -> nn.Module:
    """`network`, with all but the batch norms that have parameters converted to `dtype`."""
    for module in network.modules():
        if _stays_fp32(module):
            continue
        convert_module(module, dtype)
        if isinstance(module, nn.RNNBase):
            module.flatten_parameters()
    return network


def _stays_fp32(module: nn.Module) -> bool:
    return isinstance(module, _BatchNorm) and module.affine


def prep_param_lists(model: nn.Module, flat_master: bool = False) -> tuple[list[Any], list[Any]]:
    """The parameters of `model` that train, and fp32 masters of them: one for each, or one for all if `flat_master`.

    Raises ValueError if one master is to hold parameters of different types.
    """
    model_params = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not flat_master:
        return model_params, [parameter.detach().clone().float().requires_grad_() for parameter in model_params]
    dtypes = {parameter.dtype for parameter in model_params}
    if len(dtypes) > 1:
        raise ValueError(
            f"prep_param_lists: the model has parameters of types {sorted(map(str, dtypes))}, which one flat master "
            "cannot hold; pass flat_master=False"
        )
    master = nn.Parameter(_flatten([parameter.data for parameter in model_params]).float())
    master.grad = torch.zeros_like(master)
    return model_params, [master]


def model_grads_to_master_grads(model_params: Tensors, master_params: Tensors, flat_master: bool = False) -> None:
    """Copy the gradients of `model_params` to `master_params`, as `prep_param_lists` returned both.

    A master whose parameter has no gradient gets none; in a flat one its part is 0.
    """
    if flat_master:
        grads = [torch.zeros_like(model) if model.grad is None else model.grad for model in model_params]
        master_params[0].grad = _flatten(grads).to(master_params[0].dtype)
        return
    for model, master in zip(model_params, master_params, strict=True):
        master.grad = None if model.grad is None else model.grad.detach().to(master.dtype, copy=True)


def master_params_to_model_params(model_params: Tensors, master_params: Tensors, flat_master: bool = False) -> None:
    """Copy `master_params` to `model_params`, as `prep_param_lists` returned both."""
    masters: Tensors = master_params
    if flat_master:
        masters = _unflatten_dense_tensors(master_params[0].data, model_params)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for model, master in zip(model_params, masters, strict=True):
            model.copy_(master)


def to_python_float(t: Any) -> Any:
    """The number in a tensor of one element, or the first of a sequence."""
    return t.item() if hasattr(t, "item") else t[0]


def _flatten(tensors: Tensors) -> torch.Tensor:
    flat: torch.Tensor = _flatten_dense_tensors(tensors)  # type: ignore[no-untyped-call]
    return flat
