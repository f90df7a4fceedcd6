"""What of torch takes the place of a class or function of NVIDIA apex, and how their signatures differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Successor:
    """One of torch for one of apex. Signatures are those of apex at e13873de and of torch 2.4 and later.

    `parameters` are apex's, in order, `positions` what torch takes by position. `renamed` gives torch's name for a
    parameter, `idle` are parameters without an effect on what is computed, `only` the values (as literals in source
    text) with which torch does the same, for parameters it does not have. `spelled` are arguments to write out where
    apex's default is another than torch's. `variant` is the successor to take where a parameter has a certain value.
    """

    dotted: str
    parameters: tuple[str, ...]
    positions: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spelled: Mapping[str, str] = field(default_factory=dict)
    variant: tuple[str, str, Successor] | None = None


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ADAM_PARAMETERS = _words(
    "params lr bias_correction betas eps adam_w_mode weight_decay amsgrad set_grad_none capturable master_weights"
)
_ADAM_ONLY = {"bias_correction": ("True", "1"), "master_weights": ("False",), "amsgrad": ("False",)}
_ADAM = Successor(
    "torch.optim.Adam",
    _ADAM_PARAMETERS,
    _words("params lr betas eps weight_decay amsgrad"),
    idle=frozenset({"set_grad_none"}),
    only={**_ADAM_ONLY, "adam_w_mode": ("False", "0")},
)
_LAYER_NORM = Successor(
    "torch.nn.LayerNorm",
    _words("normalized_shape eps elementwise_affine memory_efficient"),
    _words("normalized_shape eps elementwise_affine"),
    idle=frozenset({"memory_efficient"}),
)
_RMS_NORM = Successor(
    "torch.nn.RMSNorm",
    _words("normalized_shape eps elementwise_affine memory_efficient"),
    _words("normalized_shape eps elementwise_affine"),
    idle=frozenset({"memory_efficient"}),
    spelled={"eps": "1e-5"},
)
_BY_NAME: Mapping[str, Successor] = {
    "apex.optimizers.FusedAdam": Successor(
        "torch.optim.AdamW",
        _ADAM_PARAMETERS,
        _words("params lr betas eps weight_decay amsgrad"),
        idle=frozenset({"set_grad_none"}),
        only={**_ADAM_ONLY, "adam_w_mode": ("True", "1")},
        spelled={"weight_decay": "0.0"},
        variant=("adam_w_mode", "False", _ADAM),
    ),
    "apex.optimizers.FusedSGD": Successor(
        "torch.optim.SGD",
        _words(
            """params lr momentum dampening weight_decay nesterov wd_after_momentum materialize_master_grads
            set_grad_none"""
        ),
        _words("params lr momentum dampening weight_decay nesterov"),
        idle=frozenset({"set_grad_none", "materialize_master_grads"}),
        only={"wd_after_momentum": ("False",)},
    ),
    "apex.optimizers.FusedAdagrad": Successor(
        "torch.optim.Adagrad",
        _words("params lr eps weight_decay set_grad_none adagrad_w_mode"),
        _words("params lr"),
        idle=frozenset({"set_grad_none"}),
        only={"adagrad_w_mode": ("False",)},
    ),
    "apex.normalization.FusedLayerNorm": _LAYER_NORM,
    "apex.normalization.MixedFusedLayerNorm": _LAYER_NORM,
    "apex.normalization.FusedRMSNorm": _RMS_NORM,
    "apex.normalization.MixedFusedRMSNorm": _RMS_NORM,
    "apex.fused_dense.FusedDense": Successor(
        "torch.nn.Linear", _words("in_features out_features bias"), _words("in_features out_features bias")
    ),
    "apex.parallel.DistributedDataParallel": Successor(
        "torch.nn.parallel.DistributedDataParallel",
        _words(
            """module message_size delay_allreduce shared_param allreduce_trigger_params retain_allreduce_buffers
            allreduce_always_fp32 num_allreduce_streams allreduce_communicators gradient_average
            gradient_predivide_factor gradient_average_split_factor prof"""
        ),
        _words("module"),
        # With all reductions at the end of the backward, parameters without a gradient did no harm.
        renamed={"delay_allreduce": "find_unused_parameters"},
        idle=frozenset(
            """message_size shared_param allreduce_trigger_params allreduce_always_fp32 num_allreduce_streams
            allreduce_communicators prof""".split()
        ),
        only={
            "retain_allreduce_buffers": ("False",),
            "gradient_average": ("True",),
            "gradient_predivide_factor": ("1.0", "1"),
            "gradient_average_split_factor": ("None",),
        },
        # Buffers were never sent from one process to the others.
        spelled={"broadcast_buffers": "False"},
    ),
    "apex.parallel.SyncBatchNorm": Successor(
        "torch.nn.SyncBatchNorm",
        _words("num_features eps momentum affine track_running_stats process_group channel_last fuse_relu"),
        _words("num_features eps momentum affine track_running_stats process_group"),
        idle=frozenset({"channel_last"}),
        only={"fuse_relu": ("False",)},
    ),
    "apex.parallel.convert_syncbn_model": Successor(
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        _words("module process_group channel_last"),
        _words("module process_group"),
        idle=frozenset({"channel_last"}),
    ),
}
# What apex's optimizers have saved, and the successor cannot read.
COUNTED_BY_GROUP = frozenset({"apex.optimizers.FusedAdam"})
OTHER_STATES: Mapping[str, str] = {
    "apex.optimizers.FusedAdam": "apex counts the steps of a group, torch those of each parameter, as its `step`",
    "apex.optimizers.FusedAdagrad": "apex saves neither a `step` of each parameter, nor a `lr_decay` of each group",
}
# Modules of apex whose names are found in the package above them too.
_INNER: Mapping[str, str] = {
    **{f"apex.optimizers.fused_{name}": "apex.optimizers" for name in ("adam", "sgd", "adagrad", "lamb", "novograd")},
    "apex.optimizers.fused_mixed_precision_lamb": "apex.optimizers",
    "apex.normalization.fused_layer_norm": "apex.normalization",
    "apex.parallel.distributed": "apex.parallel",
    "apex.parallel.optimized_sync_batchnorm": "apex.parallel",
    "apex.parallel.LARC": "apex.parallel",
    "apex.fused_dense.fused_dense": "apex.fused_dense",
    "apex.fp16_utils.fp16_optimizer": "apex.fp16_utils",
    "apex.fp16_utils.fp16util": "apex.fp16_utils",
    "apex.fp16_utils.loss_scaler": "apex.fp16_utils",
}
_MASTERS = "torch.amp.GradScaler, with the model in float32 and torch.autocast around its forward"
# What comes nearest in torch, or beside it, to what has no successor; the longest name wins.
_NEAREST: Mapping[str, str] = {
    "apex.RNN": "torch.nn.LSTM and torch.nn.GRU",
    "apex.amp": "torch.amp",
    "apex.amp.half_function": "torch.amp.custom_fwd(device_type=..., cast_inputs=torch.float16)",
    "apex.amp.float_function": "torch.amp.custom_fwd(device_type=..., cast_inputs=torch.float32)",
    "apex.amp.loss_scale": "scaler.get_scale()",
    "apex.amp._amp_state": "the torch.amp.GradScaler, which has get_scale() and state_dict()",
    "apex.amp.promote_function": "torch.promote_types on the arguments' dtypes",
    "apex.amp.register_float_function": "a call under torch.autocast(..., enabled=False), on arguments made float",
    "apex.amp.register_half_function": "a call on arguments made half",
    "apex.amp.init": "torch.autocast around forward and loss, and a torch.amp.GradScaler for its handle",
    "apex.amp.init_trainer": "torch.amp.GradScaler, whose step and update take the place of the optimizer's step",
    "apex.fp16_utils": "torch.autocast and torch.amp.GradScaler",
    "apex.fp16_utils.FP16_Optimizer": _MASTERS,
    "apex.fp16_utils.BN_convert_float": "the network left in float32, and torch.autocast around its forward",
    "apex.fp16_utils.convert_network": "the network left in float32, and torch.autocast around its forward",
    "apex.fp16_utils.network_to_half": "the network left in float32, and torch.autocast around its forward",
    "apex.fp16_utils.tofp16": "torch.autocast around the forward",
    "apex.fp16_utils.prep_param_lists": "the parameters themselves, in float32 under torch.autocast",
    "apex.fp16_utils.master_params_to_model_params": "nothing: in float32, parameters are their own masters",
    "apex.fp16_utils.model_grads_to_master_grads": "torch.amp.GradScaler.unscale_, on the parameters' own gradients",
    "apex.fp16_utils.to_python_float": "loss.item()",
    "apex.fp16_utils.LossScaler": "torch.amp.GradScaler(init_scale=..., growth_interval=2**31 - 1)",
    "apex.fp16_utils.DynamicLossScaler": "torch.amp.GradScaler",
    "apex.fp16_utils.clip_grad_norm": "torch.nn.utils.clip_grad_norm_",
    "apex.fused_dense.FusedDenseGeluDense": "torch.nn.Linear, torch.nn.GELU and torch.nn.Linear",
    "apex.mlp": "torch.nn.Sequential of torch.nn.Linear and torch.nn.ReLU; its state has other keys",
    "apex.multi_tensor_apply": "the torch._foreach_ functions",
    "apex.contrib.optimizers.FP16_Optimizer": _MASTERS,
    "apex.contrib.optimizers.FusedAdam": "torch.optim.AdamW, and torch.nn.utils.clip_grad_norm_ for its max_grad_norm",
    "apex.contrib.optimizers.FusedSGD": "torch.optim.SGD",
    "apex.optimizers": "torch.optim.AdamW",
    "apex.optimizers.FP16_Optimizer": _MASTERS,
    "apex.optimizers.FusedLAMB": "ampify_runtime.optimizers.FusedLAMB; torch has no LAMB, and AdamW trains otherwise",
    "apex.optimizers.FusedMixedPrecisionLamb": "ampify_runtime.optimizers.FusedMixedPrecisionLamb; torch has no LAMB",
    "apex.optimizers.FusedNovoGrad": "ampify_runtime.optimizers.FusedNovoGrad; torch has no NovoGrad",
    "apex.parallel.LARC": "ampify_runtime.parallel.LARC, around an optimizer of torch",
    "apex.parallel.Reducer": "torch.distributed.all_reduce on each gradient",
    "apex.parallel.create_syncbn_process_group": "torch.distributed.new_subgroups",
    "apex.parallel.multiproc": "torchrun",
}


def public_name(dotted: str) -> str:
    """A name of apex by the package it is offered in, for one spelled by the module it is made in."""
    for inner, outer in _INNER.items():
        if dotted.startswith(f"{inner}."):
            return outer + dotted[len(inner) :]
    return dotted


def successor(dotted: str) -> Successor | None:
    """What of torch takes the place of a dotted name of apex, if something does."""
    return _BY_NAME.get(public_name(dotted))


def nearest_in_torch(dotted: str) -> str | None:
    """What comes nearest to a name that has no successor, if the tables know."""
    parts = public_name(dotted).split(".")
    names = (".".join(parts[:size]) for size in range(len(parts), 1, -1))
    return next((_NEAREST[name] for name in names if name in _NEAREST), None)
