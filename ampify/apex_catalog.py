"""What of NVIDIA apex has an equal of the same name in the runtime, and what is nearest where none has."""

from __future__ import annotations

from collections.abc import Mapping

ROOT = "apex"
# By module of apex, the names in it that the runtime offers in the module of the same name.
EQUALS: Mapping[str, frozenset[str]] = {
    "apex": frozenset("amp fp16_utils fused_dense mlp multi_tensor_apply normalization optimizers parallel".split()),
    "apex.amp": frozenset(
        """_amp_state disable_casts float_function half_function init init_trainer initialize load_state_dict
        master_params promote_function register_float_function register_half_function register_promote_function
        scale_loss state_dict""".split()
    ),
    "apex.amp._amp_state": frozenset(
        """_amp_state allow_incoming_model_not_fp32 handle hard_override loss_scalers master_params maybe_print
        opt_properties verbosity warn_or_err""".split()
    ),
    "apex.fp16_utils": frozenset(
        """BN_convert_float DynamicLossScaler FP16Model FP16_Optimizer LossScaler clip_grad_norm convert_module
        convert_network fp16_optimizer fp16util loss_scaler master_params_to_model_params model_grads_to_master_grads
        network_to_half prep_param_lists to_python_float tofp16""".split()
    ),
    "apex.fp16_utils.fp16_optimizer": frozenset({"FP16_Optimizer"}),
    "apex.fp16_utils.fp16util": frozenset(
        """BN_convert_float FP16Model clip_grad_norm convert_module convert_network master_params_to_model_params
        model_grads_to_master_grads network_to_half prep_param_lists to_python_float tofp16""".split()
    ),
    "apex.fp16_utils.loss_scaler": frozenset({"DynamicLossScaler", "LossScaler"}),
    "apex.fused_dense": frozenset({"FusedDense", "FusedDenseGeluDense"}),
    "apex.mlp": frozenset({"MLP", "mlp_function"}),
    "apex.multi_tensor_apply": frozenset({"MultiTensorApply", "multi_tensor_applier"}),
    "apex.normalization": frozenset(
        "FusedLayerNorm FusedRMSNorm MixedFusedLayerNorm MixedFusedRMSNorm fused_layer_norm".split()
    ),
    "apex.normalization.fused_layer_norm": frozenset(
        "FusedLayerNorm FusedRMSNorm MixedFusedLayerNorm MixedFusedRMSNorm".split()
    ),
    "apex.optimizers": frozenset(
        """FusedAdagrad FusedAdam FusedLAMB FusedMixedPrecisionLamb FusedNovoGrad FusedSGD fused_adagrad fused_adam
        fused_lamb fused_mixed_precision_lamb fused_novograd fused_sgd""".split()
    ),
    "apex.optimizers.fused_adagrad": frozenset({"FusedAdagrad"}),
    "apex.optimizers.fused_adam": frozenset({"FusedAdam"}),
    "apex.optimizers.fused_lamb": frozenset({"FusedLAMB"}),
    "apex.optimizers.fused_mixed_precision_lamb": frozenset({"FusedMixedPrecisionLamb"}),
    "apex.optimizers.fused_novograd": frozenset({"FusedNovoGrad"}),
    "apex.optimizers.fused_sgd": frozenset({"FusedSGD"}),
    "apex.parallel": frozenset(
        """DistributedDataParallel LARC ReduceOp Reducer SyncBatchNorm convert_syncbn_model create_syncbn_process_group
        distributed multiproc""".split()
    ),
    "apex.parallel.LARC": frozenset({"LARC"}),
    "apex.parallel.distributed": frozenset({"DistributedDataParallel", "Reducer"}),
    "apex.parallel.multiproc": frozenset({"main"}),
}
_MASTERS = (
    "ampify_runtime.fp16_utils.FP16_Optimizer, which takes any optimizer and has another state; in place of the "
    "max_grad_norm of a FusedAdam in it, call clip_master_grads(max_grad_norm) before each step"
)
_BOUND = ", which has no max_grad_norm: clip before each step"
# What is nearest to a name, or to all below it; the longest name wins.
NEAREST: Mapping[str, str] = {
    "apex.RNN": "torch.nn.LSTM and torch.nn.GRU",
    "apex.amp": "the names in ampify_runtime.amp",
    "apex.contrib.bottleneck": "torchvision.models.resnet.Bottleneck",
    "apex.contrib.clip_grad": "torch.nn.utils.clip_grad_norm_(..., foreach=True)",
    "apex.contrib.conv_bias_relu": "torch.nn.Conv2d and relu under torch.compile",
    "apex.contrib.cudnn_gbn": "torch.nn.SyncBatchNorm",
    "apex.contrib.fmha": "torch.nn.functional.scaled_dot_product_attention",
    "apex.contrib.focal_loss": "torchvision.ops.sigmoid_focal_loss",
    "apex.contrib.group_norm": "torch.nn.GroupNorm",
    "apex.contrib.groupbn": "torch.nn.BatchNorm2d in channels_last, or torch.nn.SyncBatchNorm",
    "apex.contrib.index_mul_2d": "indexing and multiplying: x[index] * y",
    "apex.contrib.layer_norm": "ampify_runtime.normalization.FusedLayerNorm",
    "apex.contrib.multihead_attn": "torch.nn.MultiheadAttention",
    "apex.contrib.optimizers": "torch.distributed.optim.ZeroRedundancyOptimizer around the optimizer",
    "apex.contrib.optimizers.FP16_Optimizer": _MASTERS,
    "apex.contrib.optimizers.FusedAdam": f"ampify_runtime.optimizers.FusedAdam{_BOUND}",
    "apex.contrib.optimizers.FusedLAMB": "ampify_runtime.optimizers.FusedLAMB",
    "apex.contrib.optimizers.FusedSGD": "ampify_runtime.optimizers.FusedSGD",
    "apex.contrib.sparsity": "torch.sparse.to_sparse_semi_structured and torch.ao.pruning",
    "apex.contrib.transducer": "torchaudio.functional.rnnt_loss",
    "apex.contrib.xentropy": "torch.nn.functional.cross_entropy(..., label_smoothing=...)",
    "apex.optimizers.FP16_Optimizer": _MASTERS,
    "apex.parallel": "torch.nn.parallel and torch.nn.SyncBatchNorm",
    "apex.pyprof": "torch.profiler",
    "apex.reparameterization": "torch.nn.utils.parametrizations.weight_norm",
    "apex.transformer": "megatron.core, which took it over",
}
# Extension modules that apex compiles: no script needs to know of them.
EXTENSIONS: Mapping[str, str] = {
    "amp_C": "`from ampify_runtime import amp_C`",
    "apex_C": "torch._utils._flatten_dense_tensors",
    "fused_adam_cuda": "torch.optim.AdamW(..., fused=True)",
    "fused_layer_norm_cuda": "ampify_runtime.normalization",
    "fused_weight_gradient_mlp_cuda": "torch.nn.Linear",
    "mlp_cuda": "ampify_runtime.mlp",
    "scaled_masked_softmax_cuda": "torch.nn.functional.softmax under torch.compile",
    "scaled_upper_triang_masked_softmax_cuda": "torch.nn.functional.softmax under torch.compile",
    "syncbn": "torch.nn.SyncBatchNorm",
    "xentropy_cuda": "torch.nn.functional.cross_entropy",
}
_OF_EVERY_MODULE = frozenset({"__dict__", "__doc__", "__file__", "__name__", "__path__"})
UNKNOWN = "the documentation of torch"


def has_equal(dotted: str) -> bool:
    """Whether a dotted name of apex, spelled with the module it is in, means something in the runtime too."""
    parts = dotted.split(".")
    size = max(n for n in range(1, len(parts) + 1) if ".".join(parts[:n]) in EQUALS)
    rest = parts[size:]
    return not rest or rest[0] in ("*", *_OF_EVERY_MODULE) or rest[0] in EQUALS[".".join(parts[:size])]


def nearest(dotted: str) -> str:
    """What comes nearest to a name of apex, or of one of its extension modules, that has no equal."""
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        name = ".".join(parts[:size])
        if name in NEAREST or name in EXTENSIONS:
            return NEAREST.get(name) or EXTENSIONS[name]
    return UNKNOWN
