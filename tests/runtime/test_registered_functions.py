"""Functions that the user has cast: by decorator, and by name, as operators of torch or as code of their own."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn
from torch.nn import functional as F

from .casting import initialized

HALF, FULL = torch.bfloat16, torch.float32


def ones(dtype: torch.dtype) -> torch.Tensor:
    return torch.ones(4, dtype=dtype)


def dtypes(*values: torch.Tensor) -> list[torch.dtype]:
    return [value.dtype for value in values]


def squash(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x)


def start() -> None:
    initialized(opt_level="O4")


class TestDecorators:
    def test_half(self) -> None:
        function = amp.half_function(dtypes)
        assert function(ones(FULL)) == [FULL]
        start()
        assert function(ones(FULL), ones(HALF), ones(torch.float64), ones(torch.int64)) == [
            *(HALF, HALF, torch.float64, torch.int64)
        ]
        with amp.disable_casts():
            assert function(ones(FULL)) == [FULL]

    def test_half_follows_the_forward_it_runs_in(self) -> None:
        class Net(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return amp.half_function(torch.relu)(x)

        model, _ = initialized(nn.Sequential(Net(), nn.Linear(4, 4)), opt_level="O4")
        assert model[0](ones(FULL)).dtype is HALF

    def test_promote(self) -> None:
        function = amp.promote_function(dtypes)
        assert function(ones(FULL), ones(HALF)) == [FULL, HALF]
        start()
        assert function(ones(FULL), ones(HALF)) == [FULL, FULL]
        assert function(ones(HALF), ones(HALF)) == [HALF, HALF]
        assert function(ones(HALF), ones(torch.float16), ones(torch.float64)) == [FULL, FULL, torch.float64]

    def test_gradients_pass(self) -> None:
        start()
        x = ones(FULL).requires_grad_()
        amp.half_function(torch.tanh)(x).float().sum().backward()
        assert x.grad is not None
        assert x.grad.dtype is FULL

    @pytest.mark.parametrize("name", ["half_function", "promote_function"])
    def test_what_cannot_be_called(self, name: str) -> None:
        with pytest.raises(TypeError, match=rf"amp\.{name}: int cannot be called"):
            getattr(amp, name)(3)


class TestOperators:
    """Functions of torch are cast where every call passes: in the dispatcher."""

    @pytest.mark.parametrize(
        ("module", "name", "call"),
        [
            (torch, "sigmoid", nn.Sigmoid()),
            (torch.Tensor, "sigmoid", torch.sigmoid),
            (F, "softmax", lambda x: x.softmax(0)),
            (torch.Tensor, "__mul__", lambda x: torch.mul(x, x)),
            (F, "logsigmoid", nn.LogSigmoid()),
            (torch.linalg, "vector_norm", torch.linalg.vector_norm),
            (torch, "norm", lambda x: x.norm()),
            (F, "interpolate", lambda x: F.interpolate(x[None, None], scale_factor=2)),
        ],
    )
    def test_float(self, module: Any, name: str, call: Any) -> None:
        start()
        assert call(ones(HALF)).dtype is HALF
        amp.register_float_function(module, name)
        assert call(ones(HALF)).dtype is FULL
        assert getattr(module, name) is not None

    def test_half(self) -> None:
        amp.register_half_function(torch, "exp")
        start()
        assert torch.exp(ones(FULL)).dtype is HALF

    def test_promote(self) -> None:
        amp.register_promote_function(torch, "add")
        start()
        assert (ones(HALF) + torch.tensor(1.0)).dtype is FULL

    def test_a_registration_goes_before_apex_s_lists(self) -> None:
        amp.register_half_function(F, "softmax")
        initialized(opt_level="O4", cast_lists="apex")
        assert F.softmax(ones(FULL), dim=0).dtype is HALF
        assert torch.exp(ones(HALF)).dtype is FULL

    def test_it_holds_only_where_casts_are_on(self) -> None:
        amp.register_half_function(torch, "exp")
        assert torch.exp(ones(FULL)).dtype is FULL
        start()
        with amp.disable_casts():
            assert torch.exp(ones(FULL)).dtype is FULL
        initialized(opt_level="O0")
        with torch.autocast("cpu", dtype=HALF):
            assert torch.exp(ones(FULL)).dtype is FULL

    @pytest.mark.filterwarnings("ignore")
    def test_in_scripted_code(self) -> None:
        amp.register_float_function(torch, "sigmoid")
        start()
        assert torch.jit.script(squash)(ones(HALF)).dtype is FULL


class TestOtherFunctions:
    """Code of the user's own is wrapped where it stands, and put back."""

    def test_a_function_in_a_module(self) -> None:
        module = types.ModuleType("layers")
        module.mix = dtypes  # type: ignore[attr-defined]
        amp.register_half_function(module, "mix")
        assert module.mix is dtypes
        start()
        assert module.mix(ones(FULL)) == [HALF]
        assert module.mix.__name__ == "dtypes"
        initialized(opt_level="O0")
        assert module.mix is dtypes

    def test_methods(self) -> None:
        class Base:
            def method(self, x: torch.Tensor) -> torch.dtype:
                return x.dtype

            @staticmethod
            def static(x: torch.Tensor) -> torch.dtype:
                return x.dtype

        class Derived(Base):
            pass

        for owner, name in ((Derived, "method"), (Base, "static")):
            amp.register_half_function(owner, name)
        start()
        assert Derived().method(ones(FULL)) is HALF
        assert Base().static(ones(FULL)) is HALF
        assert Base().method(ones(FULL)) is FULL
        initialized(opt_level="O0")
        assert "method" not in vars(Derived)
        assert Base().static(ones(FULL)) is FULL

    def test_what_torch_has_in_python(self) -> None:
        amp.register_float_function(F, "softmin")
        start()
        assert F.softmin(ones(HALF), dim=0).dtype is FULL


class TestRefusals:
    def test_no_such_function(self) -> None:
        with pytest.raises(ValueError, match=r"amp\.register_half_function: torch has no 'sigmoidd'; pass a module"):
            amp.register_half_function(torch, "sigmoidd")

    def test_one_that_writes_to_its_argument(self) -> None:
        with pytest.raises(ValueError, match=r"relu_ writes to its first argument.*register 'relu'"):
            amp.register_float_function(torch, "relu_")
