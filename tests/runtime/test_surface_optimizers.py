"""Each public name of apex's optimizers, normalization, mlp and fused_dense is here, with apex's signature."""

from __future__ import annotations

import importlib
import inspect

import pytest

# Written from reading apex at e13873de: name, then parameters in order; `*` starts the keywords.
CLASSES = """
optimizers FusedAdam params lr=0.001 bias_correction=True betas=(0.9,0.999) eps=1e-08 adam_w_mode=True weight_decay=0.0 amsgrad=False set_grad_none=True capturable=False master_weights=False
optimizers FusedSGD params lr=REQUIRED momentum=0 dampening=0 weight_decay=0 nesterov=False wd_after_momentum=False materialize_master_grads=True set_grad_none=False
optimizers FusedLAMB params lr=0.001 bias_correction=True betas=(0.9,0.999) eps=1e-06 weight_decay=0.01 amsgrad=False adam_w_mode=True grad_averaging=True set_grad_none=True max_grad_norm=1.0 use_nvlamb=False
optimizers FusedMixedPrecisionLamb params lr=0.001 step=0 bias_correction=True betas=(0.9,0.999) eps=1e-06 weight_decay=0.01 amsgrad=False adam_w_mode=True grad_averaging=True max_grad_norm=1.0 use_nvlamb=False reduced_precision_dtype=None
optimizers FusedNovoGrad params lr=0.001 bias_correction=True betas=(0.9,0.999) eps=1e-08 weight_decay=0.0 amsgrad=False reg_inside_moment=False grad_averaging=True norm_type=2 init_zero=False set_grad_none=True
optimizers FusedAdagrad params lr=0.01 eps=1e-10 weight_decay=0.0 set_grad_none=True adagrad_w_mode=False
normalization FusedLayerNorm normalized_shape eps=1e-05 elementwise_affine=True memory_efficient=False
normalization FusedRMSNorm normalized_shape eps=1e-05 elementwise_affine=True memory_efficient=False
normalization MixedFusedLayerNorm normalized_shape eps=1e-05 * memory_efficient=False **kwargs
normalization MixedFusedRMSNorm normalized_shape eps=1e-05 * memory_efficient=False **kwargs
mlp MLP mlp_sizes bias=True activation='relu'
fused_dense FusedDense in_features out_features bias=True
fused_dense FusedDenseGeluDense in_features intermediate_features out_features bias=True
multi_tensor_apply MultiTensorApply chunk_size
"""

FUNCTIONS = """
normalization.fused_layer_norm fused_layer_norm_affine input weight bias normalized_shape eps=1e-06 memory_efficient=False
normalization.fused_layer_norm fused_layer_norm input normalized_shape eps=1e-06 memory_efficient=False
normalization.fused_layer_norm mixed_dtype_fused_layer_norm_affine input weight bias normalized_shape eps=1e-06 memory_efficient=False
normalization.fused_layer_norm fused_rms_norm_affine input weight normalized_shape eps=1e-06 memory_efficient=False
normalization.fused_layer_norm fused_rms_norm input normalized_shape eps=1e-06 memory_efficient=False
normalization.fused_layer_norm mixed_dtype_fused_rms_norm_affine input weight normalized_shape eps=1e-06 memory_efficient=False
normalization.fused_layer_norm manual_rms_norm input normalized_shape weight eps
mlp.mlp mlp_function bias activation *args
"""

METHODS = """
optimizers FusedAdam.step closure=None grads=None output_params=None scale=None grad_norms=None grad_scaler=None
optimizers FusedSGD.step closure=None
optimizers FusedLAMB.step closure=None
optimizers FusedMixedPrecisionLamb.step closure=None grad_scaler=None
optimizers FusedNovoGrad.step closure=None
optimizers FusedAdagrad.step closure=None
multi_tensor_apply MultiTensorApply.__call__ op noop_flag_buffer tensor_lists *args
multi_tensor_apply MultiTensorApply.check_avail
"""

# Compiled functions: the names are those of csrc/amp_C_frontend.cpp, where Python cannot see them.
AMP_C = """
multi_tensor_scale scale
multi_tensor_sgd wd momentum dampening lr nesterov first_run wd_after_momentum scale
multi_tensor_axpby a b arg_to_check
multi_tensor_l2norm per_tensor_python=None
multi_tensor_l2norm_mp per_tensor_python=None
multi_tensor_l2norm_scale scale per_tensor_python=None
multi_tensor_unscale_l2norm inv_scale per_tensor_python=None
multi_tensor_lamb_stage1_cuda per_tensor_decay step beta1 beta2 epsilon global_grad_norm max_global_grad_norm
multi_tensor_lamb_stage2_cuda per_tensor_param_norm per_tensor_update_norm lr weight_decay use_nvlamb_python=None
multi_tensor_adam lr beta1 beta2 epsilon step mode bias_correction weight_decay
multi_tensor_adam_capturable lr beta1 beta2 epsilon step mode bias_correction weight_decay inv_scale
multi_tensor_adam_capturable_master lr beta1 beta2 epsilon step mode bias_correction weight_decay inv_scale
multi_tensor_adagrad lr epsilon mode weight_decay
multi_tensor_novograd grad_norms lr beta1 beta2 epsilon step bias_correction weight_decay grad_averaging mode norm_type
multi_tensor_lamb lr beta1 beta2 epsilon step bias_correction weight_decay grad_averaging mode global_grad_norm max_grad_norm use_nvlamb_python=None
multi_tensor_lamb_mp lr beta1 beta2 epsilon step bias_correction weight_decay grad_averaging mode global_grad_norm max_grad_norm use_nvlamb_python found_inf inv_scale
"""
HYSTERESIS = (
    "current_scale growth_tracker hysteresis_tracker found_inf growth_factor backoff_factor growth_interval hysteresis"
)

# As apex, plus what apex lacks: `zero_grad(set_to_none)` of every optimizer of torch.
ZERO_GRAD = ("FusedAdam", "FusedSGD", "FusedLAMB", "FusedNovoGrad", "FusedAdagrad")


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def named(module: str, name: str) -> object:
    found: object = importlib.import_module(f"ampify_runtime.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    return found


def shown(parameter: inspect.Parameter) -> str:
    prefix = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    if parameter.default is inspect.Parameter.empty:
        return prefix + parameter.name
    required = repr(parameter.default) == "<required parameter>"
    default = "REQUIRED" if required else repr(parameter.default).replace(" ", "")
    return f"{parameter.name}={default}"


def signature(function: object) -> list[str]:
    found: list[str] = []
    for parameter in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        if parameter.name == "self":
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in found:
            found.append("*")
        found.append(shown(parameter))
    return found


@pytest.mark.parametrize(("module", "name", "expected"), [(row[0], row[1], row[2:]) for row in rows(CLASSES)])
def test_classes(module: str, name: str, expected: list[str]) -> None:
    assert signature(named(module, name)) == expected


@pytest.mark.parametrize(
    ("module", "name", "expected"), [(row[0], row[1], row[2:]) for row in rows(FUNCTIONS) + rows(METHODS)]
)
def test_functions(module: str, name: str, expected: list[str]) -> None:
    assert signature(named(module, name)) == expected


@pytest.mark.parametrize("name", ZERO_GRAD)
def test_zero_grad_needs_no_argument_and_takes_torchs(name: str) -> None:
    assert signature(named("optimizers", f"{name}.zero_grad")) == ["set_to_none=None"]


@pytest.mark.parametrize(("name", "expected"), [(row[0], row[1:]) for row in rows(AMP_C)])
def test_amp_c(name: str, expected: list[str]) -> None:
    assert signature(named("amp_C", name)) == ["chunk_size", "noop_flag", "tensor_lists", *expected]


def test_amp_c_has_all_and_no_more() -> None:
    names = {row[0] for row in rows(AMP_C)} | {"update_scale_hysteresis"}
    assert set(importlib.import_module("ampify_runtime.amp_C").__all__) == names
    assert signature(named("amp_C", "update_scale_hysteresis")) == HYSTERESIS.split()


def test_the_applier_is_there_and_available() -> None:
    from ampify_runtime.multi_tensor_apply import MultiTensorApply, multi_tensor_applier

    assert isinstance(multi_tensor_applier, MultiTensorApply)
    assert multi_tensor_applier.available
    assert multi_tensor_applier.chunk_size == 2048 * 32
    assert multi_tensor_applier(lambda *args: args, "flag", "lists", 3) == (65536, "flag", "lists", 3)
