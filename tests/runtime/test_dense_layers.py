"""MLP and fused_dense: the same numbers as torch's own layers, their parameters and autocast as in apex."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from ampify_runtime.fused_dense import FusedDense, FusedDenseGeluDense
from ampify_runtime.mlp import MLP
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {"none": nn.Identity(), "relu": nn.ReLU(), "sigmoid": nn.Sigmoid()}
SIZES = [7, 5, 3]


def layered(mlp: MLP, activation: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for index, weight in enumerate(mlp.weights):
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bool(mlp.bias))
        linear.weight.data.copy_(weight)
        if mlp.bias:
            linear.bias.data.copy_(mlp.biases[index])
        layers += [linear, ACTIVATIONS[activation]]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_mlp_is_linear_layers_with_an_activation_after_each(activation: str, bias: bool) -> None:
    mlp = MLP(SIZES, bias=bias, activation=activation)
    expected = layered(mlp, activation)
    x = torch.randn(4, 7, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    out, reference = mlp(x), expected(y)
    out.square().sum().backward()
    reference.square().sum().backward()
    torch.testing.assert_close(out, reference)
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(mlp.weight_0.grad, expected[0].weight.grad)


def test_mlp_parameters_have_apexs_names_and_follow_the_module() -> None:
    mlp = MLP(SIZES)
    assert list(mlp.state_dict()) == ["weight_0", "bias_0", "weight_1", "bias_1"]
    assert mlp.num_layers == 2
    for twin in (copy.deepcopy(mlp), pickle.loads(pickle.dumps(mlp))):
        with torch.no_grad():
            twin.weight_0.zero_()
        assert twin.weights[0] is twin.weight_0
        assert not torch.equal(mlp.weights[0], twin.weights[0])


def test_mlp_weights_start_with_the_documented_spread() -> None:
    mlp = MLP([600, 400])
    assert mlp.weight_0.std().item() == pytest.approx((2 / 1000) ** 0.5, rel=0.02)
    assert mlp.bias_0.std().item() == pytest.approx((1 / 400) ** 0.5, rel=0.2)


def test_mlp_names_the_activations_that_there_are() -> None:
    with pytest.raises(TypeError, match='activation is \'tanh\'; use "none", "relu" or "sigmoid"'):
        MLP(SIZES, activation="tanh")


def test_autocast_reaches_inside() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert MLP(SIZES)(torch.ones(1, 7)).dtype is torch.bfloat16
        assert FusedDense(7, 3)(torch.ones(1, 7)).dtype is torch.bfloat16
        assert FusedDenseGeluDense(7, 5, 3)(torch.ones(1, 7)).dtype is torch.bfloat16


@pytest.mark.parametrize("bias", [True, False])
def test_fused_dense_is_a_linear_layer(bias: bool) -> None:
    layer = FusedDense(6, 4, bias=bias)
    plain = nn.Linear(6, 4, bias=bias)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(layer(x), plain(x))
    assert layer.weight.abs().max() <= 6**-0.5, "initialized, as torch's is"


def test_fused_dense_gelu_dense_is_two_linear_layers_with_gelu_between() -> None:
    layer = FusedDenseGeluDense(6, 5, 4)
    x = torch.randn(3, 6, requires_grad=True)
    hidden = x.detach().double() @ layer.weight1.detach().double().T + layer.bias1.detach().double()
    hidden = 0.5 * hidden * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    expected = hidden @ layer.weight2.detach().double().T + layer.bias2.detach().double()
    torch.testing.assert_close(layer(x).double(), expected, rtol=1e-5, atol=1e-6)
    layer(x).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_fused_dense_gelu_dense_has_a_bias() -> None:
    with pytest.raises(ValueError, match="bias=False is not available"):
        FusedDenseGeluDense(6, 5, 4, bias=False)


def test_fused_dense_trains() -> None:
    layer = FusedDenseGeluDense(6, 16, 1)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    x = torch.randn(64, 6)
    target = x.square().sum(1, keepdim=True)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.mse_loss(layer(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
