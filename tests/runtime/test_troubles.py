"""The commonest troubles of apex's users, each as a script of theirs would meet it here."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn
from torch.nn import functional as F

from .training import X, assert_same, backward, make_mlp, weights_of

REDUCED = ["O1", "O2", "O3", "O4", "O5"]


def start(level: str, model: nn.Module | None = None, **keywords: Any) -> tuple[Any, torch.optim.Optimizer]:
    model = make_mlp() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0, **keywords)
    return model, optimizer


@pytest.mark.parametrize("lists", ["torch", "apex"])
@pytest.mark.parametrize("level", ["O1", "O4"])
def test_bce_loss_where_functions_are_cast(level: str, lists: str, bfloat16: torch.dtype) -> None:
    """apex's lists ban it, with a message; torch's do so on CUDA alone, and on the CPU have it in fp32."""
    model, _ = start(level, cast_lists=lists)
    probabilities, ones = torch.sigmoid(model(X)), torch.ones(2, 3)
    if lists == "apex":
        with pytest.raises((RuntimeError, NotImplementedError), match="binary_cross_entropy"):
            F.binary_cross_entropy(probabilities, ones)
    else:
        assert F.binary_cross_entropy(probabilities, ones).dtype is torch.float32
    safe = amp.float_function(F.binary_cross_entropy)(probabilities, ones)
    assert safe.dtype is torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_bce_loss_on_cuda_says_what_to_use_instead() -> None:
    model, _ = start("O1", make_mlp().cuda())
    with pytest.raises(RuntimeError, match=r"unsafe to autocast"):
        F.binary_cross_entropy(torch.sigmoid(model(X.cuda())), torch.ones(2, 3, device="cuda"))


@pytest.mark.parametrize("level", ["O0", "O2", "O5"])
def test_bce_loss_works_where_functions_are_not_cast(level: str) -> None:
    model, optimizer = start(level)
    loss = F.binary_cross_entropy(torch.sigmoid(model(X)), torch.ones(2, 3))
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    before = weights_of(model)
    optimizer.step()
    assert not torch.equal(weights_of(model)[0], before[0])


@pytest.mark.parametrize("level", REDUCED)
def test_casts_are_back_after_an_exception_in_a_block(level: str, bfloat16: torch.dtype) -> None:
    model, optimizer = start(level)
    dtype = model(X).dtype
    with pytest.raises(KeyError), amp.scale_loss(model(X).float().sum(), optimizer):
        raise KeyError
    assert model(X).dtype is dtype
    backward(model, optimizer)
    before = weights_of(model)
    optimizer.step()
    assert not torch.equal(weights_of(model)[0], before[0])


class Cube(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype is torch.float32
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


class Double(torch.autograd.Function):
    """One that knows nothing of mixed precision."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return 2 * grad


@pytest.mark.parametrize("level", ["O1", "O4"])
@pytest.mark.parametrize("function", [Cube, Double])
def test_custom_functions(level: str, function: Any, bfloat16: torch.dtype) -> None:
    model, optimizer = start(level)

    def gradients(scale: bool) -> list[torch.Tensor]:
        loss = function.apply(model(X)).float().square().mean()
        if not scale:
            return list(torch.autograd.grad(loss, list(model.parameters())))
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        return [p.grad for p in amp.master_params(optimizer) if p.grad is not None]

    assert_same(gradients(True), gradients(False))


@pytest.mark.parametrize("level", ["O1", "O2", "O4", "O5"])
def test_gradient_penalty_trains_as_in_fp32(level: str, float16: torch.dtype) -> None:
    def train(level: str) -> torch.Tensor:
        model, optimizer = start(level)
        for _ in range(10):
            optimizer.zero_grad()
            x = X.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(model(x).float().sum(), x, create_graph=True)
            penalty = (gradient.norm(2, dim=1) - 1).square().mean()
            with amp.scale_loss(penalty, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
        return torch.cat([value.flatten() for value in weights_of(model)])

    torch.testing.assert_close(train(level), train("O0"), rtol=0.02, atol=0.005)


def test_two_models_of_one_optimizer_and_a_list_of_optimizers() -> None:
    models = [make_mlp(), make_mlp()]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in models]
    amp.initialize(models, optimizers, opt_level="O2", num_losses=2, verbosity=0)
    out = models[1](F.pad(models[0](X), (0, 5)))
    with amp.scale_loss(out.square().mean(), optimizers, loss_id=1) as scaled_loss:
        scaled_loss.backward()
    before = [weights_of(m)[0] for m in models]
    for optimizer in optimizers:
        optimizer.step()
    assert all(not torch.equal(weights_of(m)[0], b) for m, b in zip(models, before, strict=True))


@pytest.mark.parametrize("level", REDUCED)
def test_scripting_an_initialized_model_says_what_to_do(level: str, bfloat16: torch.dtype) -> None:
    model, _ = start(level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match=r"script the model before amp\.initialize"):
            torch.jit.script(model)
        twin = make_mlp()
        twin.load_state_dict(model.state_dict())
        torch.jit.script(twin)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("level", REDUCED)
def test_a_traced_model_computes_the_same(level: str, bfloat16: torch.dtype) -> None:
    model, _ = start(level, nn.Sequential(make_mlp(), nn.LayerNorm(3)))
    # The traced graph's executor fuses, and rounds once less.
    ours, theirs = torch.jit.trace(model, X)(X).detach().float(), model(X).detach().float()
    torch.testing.assert_close(ours, theirs, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(("first", "backend"), [("compile", "eager"), ("initialize", "aot_eager")])
@pytest.mark.parametrize("level", REDUCED)
def test_a_compiled_model_trains_the_same(level: str, first: str, backend: str, float16: torch.dtype) -> None:
    def train(compiles: bool) -> list[torch.Tensor]:
        torch.compiler.reset()
        inner = nn.Sequential(make_mlp(), nn.LayerNorm(3))
        model: Any = torch.compile(inner, backend=backend) if compiles and first == "compile" else inner
        optimizer = torch.optim.SGD(inner.parameters(), lr=0.01)
        amp.initialize(model, optimizer, opt_level=level, verbosity=0)
        model = torch.compile(inner, backend=backend) if compiles and first == "initialize" else model
        for _ in range(3):
            optimizer.zero_grad()
            loss = (model(X).float() - 1).square().mean()
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
        return weights_of(inner)

    plain = train(False)
    for ours, theirs in zip(train(True), plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("level", REDUCED)
def test_everything_of_the_user_s_objects_is_still_there(level: str, bfloat16: torch.dtype) -> None:
    model = make_mlp()
    model.note = {"a": 1}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer.note = "b"  # type: ignore[attr-defined]
    types = type(model), type(optimizer), type(model[0].weight)
    names = set(vars(model)), set(vars(optimizer))
    step = type(optimizer).step
    start_again = copy.copy(vars(model[0]))
    amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    assert (type(model), type(optimizer), type(model[0].weight)) == types
    assert names[0] <= set(vars(model))
    assert names[1] <= set(vars(optimizer))
    assert set(start_again) <= set(vars(model[0]))
    assert type(optimizer).step is step
    assert "step" not in vars(optimizer)
    assert "forward" not in vars(model)
