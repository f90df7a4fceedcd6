"""Owns MLP: linear layers with one activation after each, on torch's own matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

# Numbers as apex gives them to its kernel; some scripts read `mlp.activation`.
_ACTIVATIONS: dict[str, int] = {"none": 0, "relu": 1, "sigmoid": 2}
_FUNCTIONS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (lambda tensor: tensor, torch.relu, torch.sigmoid)


def mlp_function(bias: bool | int, activation: int, *args: torch.Tensor) -> torch.Tensor:
    """The layers' output, of shape [..., last size]; `args` are the input, all weights, then all biases if `bias`.

    `activation` is 0 for none, 1 for relu, 2 for sigmoid, and follows every layer, the last one too. Under autocast
    the products are computed in its type.
    """
    hidden, parameters = args[0], args[1:]
    layers = len(parameters) // 2 if bias else len(parameters)
    biases: Sequence[torch.Tensor | None] = parameters[layers:] if bias else [None] * layers
    activate = _FUNCTIONS[activation]
    for weight, offset in zip(parameters[:layers], biases, strict=True):
        hidden = activate(F.linear(hidden, weight, offset))
    return hidden


class MLP(nn.Module):
    """Linear layers of sizes `mlp_sizes`, input first, each followed by `activation`: "none", "relu" or "sigmoid".

    Parameters are `weight_0`, `bias_0` and so on, of shapes [outputs, inputs] and [outputs]. Weights start normal with
    variance 2 / (inputs + outputs), biases with 1 / outputs. Raises TypeError for another activation.
    """

    def __init__(self, mlp_sizes: Sequence[int], bias: bool = True, activation: str = "relu") -> None:
        super().__init__()
        if activation not in _ACTIVATIONS:
            raise TypeError(f'MLP: activation is {activation!r}; use "none", "relu" or "sigmoid"')
        self.mlp_sizes = list(mlp_sizes)
        self.num_layers = len(self.mlp_sizes) - 1
        self.bias = int(bool(bias))
        self.activation = _ACTIVATIONS[activation]
        for layer in range(self.num_layers):
            inputs, outputs = self.mlp_sizes[layer : layer + 2]
            self.register_parameter(f"weight_{layer}", nn.Parameter(torch.empty(outputs, inputs)))
            if self.bias:
                self.register_parameter(f"bias_{layer}", nn.Parameter(torch.empty(outputs)))
        self.reset_parameters()

    @property
    def weights(self) -> list[Any]:
        """The layers' weights, first layer first."""
        return [getattr(self, f"weight_{layer}") for layer in range(self.num_layers)]

    @property
    def biases(self) -> list[Any]:
        """The layers' biases, first layer first; none without `bias`."""
        return [getattr(self, f"bias_{layer}") for layer in range(self.num_layers)] if self.bias else []

    def reset_parameters(self) -> None:
        """Draw all weights and biases anew."""
        for weight in self.weights:
            nn.init.normal_(weight, 0.0, math.sqrt(2.0 / sum(weight.shape)))
        for bias in self.biases:
            nn.init.normal_(bias, 0.0, math.sqrt(1.0 / bias.shape[0]))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`input` of shape [..., first size] gives [..., last size]."""
        return mlp_function(self.bias, self.activation, input, *self.weights, *self.biases)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"MLP sizes: {self.mlp_sizes}, Bias={self.bias}, activation={self.activation}"
