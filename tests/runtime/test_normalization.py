"""The normalization layers against float64: values, gradients, types of output, and what autocast makes of them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from ampify_runtime import normalization
from ampify_runtime.normalization import FusedLayerNorm, FusedRMSNorm, MixedFusedLayerNorm, MixedFusedRMSNorm
from ampify_runtime.normalization import fused_layer_norm as functions
from torch import nn

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
TYPES = list(TOLERANCE)
EPS = 1e-5


def plain(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, dims: int) -> torch.Tensor:
    """The definition, in float64: layer norm if there is a bias, else division by the root mean square."""
    axes = tuple(range(-dims, 0))
    if bias is not None:
        x = x - x.mean(axes, keepdim=True)
    x = x / (x.square().mean(axes, keepdim=True) + EPS).sqrt()
    return x if weight is None else x * weight + (0 if bias is None else bias)


def shaken(layer: nn.Module) -> nn.Module:
    """With weights and biases that leave traces, exact in every type."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in layer.named_parameters():
        values = torch.randint(1, 8, parameter.shape, generator=generator) / 4
        parameter.data.copy_(values if name == "weight" else values - 1)
    return layer


def double(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.detach().double().requires_grad_()


def check(layer: Any, x: torch.Tensor, out_dtype: torch.dtype, tolerance: float, dims: int = 1) -> None:
    x = x.detach().requires_grad_()
    weight, bias = layer.weight, getattr(layer, "bias", None)
    wide = [double(tensor) for tensor in (x, weight, bias)]
    centred = isinstance(layer, FusedLayerNorm) and wide[2] is None
    subject = wide[0] - wide[0].mean(tuple(range(-dims, 0)), keepdim=True) if centred else wide[0]  # type: ignore[union-attr]
    expected = plain(subject, wide[1], wide[2], dims)
    upstream = torch.randint(-8, 9, expected.shape) / 8
    expected.backward(upstream.double())
    actual = layer(x)
    assert actual.dtype is out_dtype
    actual.backward(upstream.to(out_dtype))
    torch.testing.assert_close(actual.detach().double(), expected.detach(), rtol=tolerance, atol=tolerance)
    for mine, theirs in zip((x, weight, bias), wide, strict=True):
        if mine is not None and theirs is not None:
            assert mine.grad.dtype is mine.dtype
            scale = max(1.0, theirs.grad.abs().max().item())
            torch.testing.assert_close(mine.grad.double(), theirs.grad, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("memory_efficient", [False, True])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", [FusedLayerNorm, FusedRMSNorm])
def test_one_type(kind: Any, dtype: torch.dtype, affine: bool, memory_efficient: bool) -> None:
    layer = shaken(kind([3, 5], elementwise_affine=affine, memory_efficient=memory_efficient)).to(dtype)
    check(layer, torch.randn(4, 2, 3, 5).to(dtype), dtype, TOLERANCE[dtype], dims=2)


@pytest.mark.parametrize("memory_efficient", [False, True])
@pytest.mark.parametrize("layer_type", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("input_type", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [FusedLayerNorm, FusedRMSNorm])
def test_fused_gives_the_inputs_type(
    kind: Any, input_type: torch.dtype, layer_type: torch.dtype, memory_efficient: bool
) -> None:
    layer = shaken(kind(7, memory_efficient=memory_efficient)).to(layer_type)
    tolerance = max(TOLERANCE[input_type], TOLERANCE[layer_type])
    check(layer, torch.randn(9, 7).to(input_type), input_type, tolerance)


@pytest.mark.parametrize("memory_efficient", [False, True])
@pytest.mark.parametrize("layer_type", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("input_type", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [MixedFusedLayerNorm, MixedFusedRMSNorm])
def test_mixed_gives_the_parameters_type(
    kind: Any, input_type: torch.dtype, layer_type: torch.dtype, memory_efficient: bool
) -> None:
    layer = shaken(kind(7, memory_efficient=memory_efficient)).to(layer_type)
    tolerance = max(TOLERANCE[input_type], TOLERANCE[layer_type])
    check(layer, torch.randn(9, 7).to(input_type), layer_type, tolerance)


@pytest.mark.parametrize("memory_efficient", [False, True])
@pytest.mark.parametrize("kind", [FusedLayerNorm, FusedRMSNorm, MixedFusedLayerNorm, MixedFusedRMSNorm])
def test_autocast_gives_its_type_and_rounds_no_weight(kind: Any, memory_efficient: bool) -> None:
    layer = kind(7, memory_efficient=memory_efficient)
    weight = 1 + torch.arange(7) * 2.0**-12
    layer.weight.data.copy_(weight)
    x = torch.randn(5, 7)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    assert out.dtype is torch.bfloat16
    torch.testing.assert_close(out, layer(x.bfloat16().float()).bfloat16(), rtol=0, atol=0)
    out.float().sum().backward()
    assert layer.weight.grad.dtype is torch.float32


def test_float64_stays_so_under_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert FusedLayerNorm(7).double()(torch.randn(2, 7).double()).dtype is torch.float64


@pytest.mark.parametrize("kind", [FusedLayerNorm, FusedRMSNorm])
def test_views_and_empty_inputs(kind: Any) -> None:
    layer = shaken(kind(5))
    check(layer, torch.randn(3, 5, 4).transpose(1, 2), torch.float32, 1e-5)
    check(shaken(kind(5, memory_efficient=True)), torch.randn(3, 5, 4).transpose(1, 2), torch.float32, 1e-5)
    assert layer(torch.randn(0, 5)).shape == (0, 5)


@pytest.mark.parametrize("memory_efficient", [False, True])
def test_large_half_inputs_do_not_overflow_inside(memory_efficient: bool) -> None:
    layer = FusedRMSNorm(8, memory_efficient=memory_efficient).half()
    out = layer(torch.full((2, 8), 6e4, dtype=torch.float16))
    torch.testing.assert_close(out, torch.ones(2, 8, dtype=torch.float16))


def test_memory_efficient_keeps_the_output_and_not_the_input() -> None:
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    x = torch.randn(64, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = FusedLayerNorm(8, memory_efficient=True)(x)
    addresses = {tensor.data_ptr() for tensor in kept}
    assert out.data_ptr() in addresses
    assert x.data_ptr() not in addresses


@pytest.mark.parametrize("kind", [FusedLayerNorm, FusedRMSNorm])
def test_compiles_whole_and_differentiates_twice(kind: Any) -> None:
    layer = shaken(kind(7))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    x = torch.randn(3, 7)
    torch.testing.assert_close(compiled(x), layer(x))
    assert torch.autograd.gradgradcheck(copy.deepcopy(layer).double(), torch.randn(2, 7).double().requires_grad_())


@pytest.mark.parametrize("kind", [FusedLayerNorm, MixedFusedRMSNorm])
def test_compiled_under_autocast_as_not_compiled(kind: Any) -> None:
    layer = shaken(kind(7))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    x = torch.randn(3, 7)
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = layer(x), compiled(x)
    assert found.dtype is torch.bfloat16
    torch.testing.assert_close(found, expected)


def test_layers_survive_copies_pickles_and_torchs_state_dicts() -> None:
    layer = shaken(FusedLayerNorm([2, 3]))
    twin = nn.LayerNorm([2, 3])
    twin.load_state_dict(layer.state_dict())
    x = torch.randn(4, 2, 3)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), twin):
        torch.testing.assert_close(other(x), layer(x))
    assert "eps=1e-05, elementwise_affine=True" in repr(layer)


@pytest.mark.parametrize("name", ["MixedFusedLayerNorm", "MixedFusedRMSNorm"])
def test_mixed_layers_are_affine(name: str) -> None:
    kind = getattr(normalization, name)
    with pytest.raises(RuntimeError, match=f"use {name.removeprefix('Mixed')}"):
        kind(4, elementwise_affine=False)
    with pytest.warns(UserWarning, match="always has elementwise_affine=True"):
        kind(4, elementwise_affine=True)
    with pytest.raises(TypeError, match="unexpected argument 'epsilon'"):
        kind(4, epsilon=1e-3)


def test_functional_forms_and_apply() -> None:
    x, weight, bias = torch.randn(3, 4).half(), torch.rand(4), torch.rand(4)
    assert functions.fused_layer_norm_affine(x, weight, bias, 4).dtype is torch.float16
    assert functions.mixed_dtype_fused_layer_norm_affine(x, weight, bias, (4,)).dtype is torch.float32
    assert functions.fused_rms_norm_affine(x, weight, [4]).dtype is torch.float16
    assert functions.mixed_dtype_fused_rms_norm_affine(x, weight, 4).dtype is torch.float32
    assert torch.equal(
        functions.FusedLayerNormAffineFunction.apply(x, weight, bias, (4,), 1e-5),
        functions.fused_layer_norm_affine(x, weight, bias, (4,), 1e-5),
    )
    assert torch.equal(functions.FusedRMSNormFunction.apply(x, (4,), 1e-5), functions.fused_rms_norm(x, (4,), 1e-5))
    torch.testing.assert_close(
        functions.manual_rms_norm(x.float(), (4,), weight, 1e-5),
        functions.fused_rms_norm_affine(x.float(), weight, 4, 1e-5),
    )
