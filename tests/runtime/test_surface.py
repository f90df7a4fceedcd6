"""apex's public surface, name by name: each is here, with the parameters, order and defaults that apex gave it."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
import torch
from ampify_runtime.multi_tensor_apply import multi_tensor_applier

# Read from NVIDIA/apex at e13873de. A class stands for its constructor, `Class.method` for a method; `self` is left out.
AMP = """
    initialize(models, optimizers=None, enabled=True, opt_level='O1', cast_model_type=None,
        patch_torch_functions=None, keep_batchnorm_fp32=None, master_weights=None, loss_scale=None,
        cast_model_outputs=None, num_losses=1, verbosity=1, min_loss_scale=None, max_loss_scale=16777216.0)
    scale_loss(loss, optimizers, loss_id=0, model=None, delay_unscale=False, delay_overflow_check=False)
    state_dict(destination=None)
    load_state_dict(state_dict)
    master_params(optimizer)
    disable_casts()
    init(enabled=True, loss_scale='dynamic', enable_caching=True, verbose=False, allow_banned=False)
    half_function(fn)
    float_function(fn)
    promote_function(fn)
    register_half_function(module, name)
    register_float_function(module, name)
    register_promote_function(module, name)
"""
AMP_HANDLE = """
    AmpHandle.is_active()
    AmpHandle.wrap_optimizer(optimizer, num_loss=1)
    AmpHandle.scale_loss(loss, optimizer)
    NoOpHandle()
    NoOpHandle.is_active()
    NoOpHandle.wrap_optimizer(optimizer, num_loss=1)
    NoOpHandle.scale_loss(loss, optimizer)
"""
AMP_OPT = """
    OptimWrapper.scale_loss(loss)
    OptimWrapper.step(closure=None)
"""
PARALLEL = """
    DistributedDataParallel(module, message_size=10000000, delay_allreduce=False, shared_param=None,
        allreduce_trigger_params=None, retain_allreduce_buffers=False, allreduce_always_fp32=False,
        num_allreduce_streams=1, allreduce_communicators=None, gradient_average=True, gradient_predivide_factor=1.0,
        gradient_average_split_factor=None, prof=False)
    DistributedDataParallel.enable_allreduce()
    DistributedDataParallel.disable_allreduce()
    Reducer(module_or_grads_list)
    Reducer.reduce()
    SyncBatchNorm(num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, process_group=None,
        channel_last=False, fuse_relu=False)
    SyncBatchNorm.forward(input, z=None)
    convert_syncbn_model(module, process_group=None, channel_last=False)
    create_syncbn_process_group(group_size)
"""
PARALLEL_LARC = """
    LARC(optimizer, trust_coefficient=0.02, clip=True, eps=1e-08)
    LARC.state_dict()
    LARC.load_state_dict(state_dict)
    LARC.zero_grad()
    LARC.add_param_group(param_group)
    LARC.step()
"""
FP16_UTILS = """
    FP16_Optimizer(init_optimizer, static_loss_scale=1.0, dynamic_loss_scale=False, dynamic_loss_args=None,
        verbose=True)
    FP16_Optimizer.zero_grad(set_grads_to_None=False)
    FP16_Optimizer.clip_master_grads(max_norm, norm_type=2)
    FP16_Optimizer.state_dict()
    FP16_Optimizer.load_state_dict(state_dict)
    FP16_Optimizer.step(closure=None)
    FP16_Optimizer.backward(loss, update_master_grads=True, retain_graph=False)
    FP16_Optimizer.update_master_grads()
    FP16_Optimizer.inspect_master_grad_data()
    LossScaler(scale=1)
    LossScaler.has_overflow(params)
    LossScaler.update_scale(overflow)
    LossScaler.scale_gradient(module, grad_in, grad_out)
    LossScaler.backward(loss, retain_graph=False)
    DynamicLossScaler(init_scale=4294967296, scale_factor=2.0, scale_window=1000)
    DynamicLossScaler.has_overflow(params)
    DynamicLossScaler.update_scale(overflow)
    DynamicLossScaler.scale_gradient(module, grad_in, grad_out)
    DynamicLossScaler.backward(loss, retain_graph=False)
    BN_convert_float(module)
    network_to_half(network)
    convert_module(module, dtype)
    convert_network(network, dtype)
    FP16Model(network)
    FP16Model.forward(*inputs)
    prep_param_lists(model, flat_master=False)
    model_grads_to_master_grads(model_params, master_params, flat_master=False)
    master_params_to_model_params(model_params, master_params, flat_master=False)
    tofp16()
    tofp16.forward(input)
    to_python_float(t)
    clip_grad_norm(parameters, max_norm, norm_type=2.0)
"""
MULTI_TENSOR_APPLY = """
    MultiTensorApply(chunk_size)
    MultiTensorApply.check_avail()
    MultiTensorApply.__call__(op, noop_flag_buffer, tensor_lists, *args)
"""
SURFACE = {
    "amp": AMP,
    "amp.handle": AMP_HANDLE,
    "amp.opt": AMP_OPT,
    "parallel": PARALLEL,
    "parallel.LARC": PARALLEL_LARC,
    "fp16_utils": FP16_UTILS,
    "multi_tensor_apply": MULTI_TENSOR_APPLY,
}


def entries() -> list[Any]:
    found = []
    for module, text in SURFACE.items():
        for entry in text.replace("\n    " * 2, " ").replace("\n        ", " ").strip().split("\n    "):
            name, parameters = entry.split("(", 1)
            found.append(pytest.param(module, name, parameters[:-1], id=f"{module}.{name}"))
    return found


def parameters_of(function: Any) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    return [parameter for parameter in parameters if parameter.name != "self"]


def spelled(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
    default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
    return f"{star}{parameter.name}{default}"


def test_entries_are_read_right() -> None:
    read = {entry.id: entry.values[2] for entry in entries()}
    assert len(read) == sum(text.count("(") for text in SURFACE.values()) == 72
    assert read["parallel.Reducer"] == "module_or_grads_list"


@pytest.mark.parametrize(("module", "name", "expected"), entries())
def test_signature(module: str, name: str, expected: str) -> None:
    value: Any = importlib.import_module(f"ampify_runtime.{module}")
    for part in name.split("."):
        value = getattr(value, part)
    ours = parameters_of(value)
    wanted = [part for part in expected.split(", ") if part]
    if name == "scale_loss":
        # Here the optimizers may be left out.
        wanted[1] = "optimizers=None"
    assert [spelled(parameter) for parameter in ours[: len(wanted)]] == wanted
    # What is ours comes after, and can be left out.
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    assert all(item.default is not item.empty or item.kind in optional for item in ours[len(wanted) :])


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("amp", "_amp_state"),
        ("amp._amp_state", "_amp_state"),
        ("amp._amp_state", "master_params"),
        ("amp._amp_state", "maybe_print"),
        ("amp._amp_state", "warn_or_err"),
        ("amp.handle", "AmpHandle"),
        ("parallel", "ReduceOp"),
        ("parallel", "LARC"),
        ("parallel.multiproc", "main"),
        ("fp16_utils", "LossScaler.loss_scale"),
        ("fp16_utils", "FP16_Optimizer.loss_scale"),
        ("fp16_utils", "FP16_Optimizer.state"),
        ("fp16_utils", "FP16_Optimizer.param_groups"),
        ("multi_tensor_apply", "multi_tensor_applier"),
    ],
)
def test_other_names(module: str, name: str) -> None:
    value: Any = importlib.import_module(f"ampify_runtime.{module}")
    for part in name.split("."):
        value = getattr(value, part)
    assert value is not None


def test_the_applier_is_available() -> None:
    assert multi_tensor_applier.available
    assert multi_tensor_applier.chunk_size == 2048 * 32

    def add_up(chunk_size: int, flag: torch.Tensor, lists: Any, factor: float) -> Any:
        return chunk_size, flag, lists, factor

    flag, lists = torch.zeros(1, dtype=torch.int), [[torch.ones(1)]]
    assert multi_tensor_applier(add_up, flag, lists, 2.0) == (65536, flag, lists, 2.0)
