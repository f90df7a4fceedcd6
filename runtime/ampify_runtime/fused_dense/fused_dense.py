"""Owns FusedDense and FusedDenseGeluDense: linear layers on torch's own matrix products, bias included."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class FusedDense(nn.Module):
    """A linear layer; parameters `weight` [out_features, in_features] and `bias` [out_features].

    They start as those of `torch.nn.Linear`; apex leaves them uninitialized.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        if bias:
            self.bias = nn.Parameter(torch.empty(out_features))
        else:
            self.register_parameter("bias", None)
        _start(self.weight, self.bias)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`input` of shape [..., in_features] gives [..., out_features]."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class FusedDenseGeluDense(nn.Module):
    """Linear, GELU (by tanh, as cuBLASLt's epilogue computes it), linear.

    Parameters: `weight1` [intermediate_features, in_features], `weight2` [out_features, intermediate_features]
    and their biases, which start as those of `torch.nn.Linear`. Raises ValueError for `bias=False`, which apex has not.
    """

    def __init__(self, in_features: int, intermediate_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        if not bias:
            raise ValueError(
                "FusedDenseGeluDense: bias=False is not available; chain two FusedDense with a GELU between"
            )
        self.in_features = in_features
        self.intermediate_features = intermediate_features
        self.out_features = out_features
        self.weight1 = nn.Parameter(torch.empty(intermediate_features, in_features))
        self.bias1 = nn.Parameter(torch.empty(intermediate_features))
        self.weight2 = nn.Parameter(torch.empty(out_features, intermediate_features))
        self.bias2 = nn.Parameter(torch.empty(out_features))
        _start(self.weight1, self.bias1)
        _start(self.weight2, self.bias2)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`input` of shape [..., in_features] gives [..., out_features]."""
        hidden = F.gelu(F.linear(input, self.weight1, self.bias1), approximate="tanh")
        return F.linear(hidden, self.weight2, self.bias2)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        sizes = (self.in_features, self.intermediate_features, self.out_features)
        return "in_features={}, intermediate_features={}, out_features={}".format(*sizes)


def _start(weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        bound = 1.0 / math.sqrt(weight.shape[1])
        nn.init.uniform_(bias, -bound, bound)
