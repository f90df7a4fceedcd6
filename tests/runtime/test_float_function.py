"""`amp.float_function`: in fp32 where casts are on, untouched where they are off."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from ampify_runtime import amp
from torch import nn
from torch.nn import functional as F

from .training import assert_same, make_mlp


@pytest.fixture
def casts() -> None:
    model = make_mlp()
    amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1), opt_level="O4")


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def dtypes(*values: Any, **named: Any) -> list[Any]:
    found = []
    for value in (*values, *named.values()):
        if isinstance(value, torch.Tensor):
            found.append(value.dtype)
        elif isinstance(value, dict):
            found.append(dtypes(*value.values()))
        elif isinstance(value, (list, tuple)):
            found.append(dtypes(*value))
        else:
            found.append(value)
    return found


@pytest.mark.usefixtures("casts")
class TestWithCasts:
    def test_arguments_are_float32_in_any_container(self) -> None:
        half, short = torch.ones(1, dtype=torch.float16), torch.ones(1, dtype=torch.bfloat16)
        seen = amp.float_function(dtypes)(half, [short, (half, 3)], {"a": short}, Pair(half, short), name=short)
        f = torch.float32
        assert seen == [f, [f, [f, 3]], [f], [f, f], f]

    def test_other_types_stay(self) -> None:
        values = torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.int64), "text", None
        assert amp.float_function(dtypes)(*values) == [torch.float64, torch.int64, "text", None]

    def test_nothing_is_cast_inside(self) -> None:
        product = amp.float_function(torch.mm)
        assert product(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.float32
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.bfloat16

    def test_binary_cross_entropy_and_its_gradient(self) -> None:
        logits = torch.linspace(-2, 2, 4, dtype=torch.bfloat16).requires_grad_()
        target = torch.tensor([0.0, 1.0, 1.0, 0.0])
        for criterion in (F.binary_cross_entropy, nn.BCELoss()):
            loss = amp.float_function(criterion)(torch.sigmoid(logits), target)
            expected = F.binary_cross_entropy(torch.sigmoid(logits).float(), target)
            assert_same([loss], [expected])
            assert_same(torch.autograd.grad(loss, [logits]), torch.autograd.grad(expected, [logits]))

    def test_as_a_decorator_of_a_method(self) -> None:
        class Loss(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.eye(2))

            @amp.float_function
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                """Mix."""
                return x @ self.weight

        loss = Loss()
        assert loss(torch.ones(1, 2, dtype=torch.bfloat16)).dtype is torch.float32
        assert Loss.forward.__name__ == "forward"
        assert Loss.forward.__doc__ == "Mix."

    def test_casts_are_on_again_after_an_error(self) -> None:
        def fail() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            amp.float_function(fail)()
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.bfloat16


@pytest.mark.parametrize("keywords", [None, {"opt_level": "O0"}, {"opt_level": "O4", "enabled": False}])
def test_without_casts_arguments_are_untouched(keywords: dict[str, Any] | None) -> None:
    if keywords is not None:
        model = make_mlp()
        amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1), **keywords)
    half = torch.ones(1, dtype=torch.float16)
    assert amp.float_function(dtypes)(half, [half]) == [torch.float16, [torch.float16]]


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match=r"amp\.float_function: str cannot be called; pass a function or a module"):
        amp.float_function("loss")  # type: ignore[arg-type]
