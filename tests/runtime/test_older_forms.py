"""The call forms before `amp.initialize`: handles, wrapped optimizers, trainers."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import autograd, nn

from .casting import product_dtype
from .training import X, assert_same, make_mlp, weights_of

STEPS = 4
pytestmark = pytest.mark.filterwarnings("ignore:ampify. the model is on the CPU")


def start(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def loss_of(model: nn.Module) -> torch.Tensor:
    return model(X).float().square().mean()


def by_hand(dtype: torch.dtype | None) -> list[torch.Tensor]:
    """Weights after steps with torch.amp, or in fp32."""
    model = make_mlp()
    optimizer = start(model)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            loss = loss_of(model)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return weights_of(model)


def train(prepare: Callable[[torch.optim.Optimizer], Any], scaled: Callable[[Any, torch.Tensor], Any]) -> Any:
    """Weights after steps in one of the older forms: `prepare` the optimizer, and scale losses with what it returns."""
    model = make_mlp()
    optimizer = start(model)
    prepared = prepare(optimizer)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with scaled(prepared, loss_of(model)) as scaled_loss:
            scaled_loss.backward()
        (prepared if hasattr(prepared, "step") else optimizer).step()
    return weights_of(model)


def with_trainer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    amp.init()
    amp.init_trainer(optimizer)
    return optimizer


FORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "wrapped": (lambda optimizer: amp.init().wrap_optimizer(optimizer), lambda wrapped, loss: wrapped.scale_loss(loss)),
    "trainer": (with_trainer, lambda trainer, loss: amp.scale_loss(loss, trainer)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["float16", "bfloat16", None])
def test_they_train_as_torch_amp_does(form: str, name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if name:
        monkeypatch.setenv("AMPIFY_DTYPE", name)
    expected = by_hand(getattr(torch, name) if name else None)
    assert_same(train(*FORMS[form]), expected)


def test_a_handle_scales_too(float16: torch.dtype) -> None:
    expected = by_hand(float16)
    model = make_mlp()
    optimizer = start(model)
    handle = amp.init()
    assert handle.is_active()
    for _ in range(STEPS):
        optimizer.zero_grad()
        with handle.scale_loss(loss_of(model), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    assert_same(weights_of(model), expected)


class TestTrainers:
    def test_the_snippet_of_tutorials(self, float16: torch.dtype) -> None:
        model = make_mlp()
        trainer = start(model)
        expected = by_hand(float16)
        amp.init()
        amp.init_trainer(trainer)
        for _ in range(STEPS):
            trainer.zero_grad()
            loss = loss_of(model)
            with amp.scale_loss(loss, trainer) as scaled_loss:
                autograd.backward(scaled_loss)
            trainer.step()
        assert_same(weights_of(model), expected)
        assert amp.loss_scale() == 65536.0

    def test_a_list_of_losses(self, float16: torch.dtype) -> None:
        model = make_mlp()
        trainer = start(model)
        amp.init()
        amp.init_trainer(trainer)
        losses = [loss_of(model), loss_of(model)]
        with amp.scale_loss(losses, trainer) as scaled_loss:
            assert isinstance(scaled_loss, list)
            autograd.backward(scaled_loss)
        twice = [parameter.grad for parameter in model.parameters()]
        other = make_mlp()
        with torch.autocast("cpu", dtype=float16):
            loss = loss_of(other)
        torch.amp.GradScaler("cpu").scale(loss).backward()
        expected = [parameter.grad * 2 / 65536 for parameter in other.parameters()]  # type: ignore[operator]
        torch.testing.assert_close(twice, expected)

    @pytest.mark.parametrize("holder", ["optimizer", "optimizers", "dict"])
    def test_an_object_that_holds_optimizers(self, holder: str, float16: torch.dtype) -> None:
        model = make_mlp()
        optimizer = start(model)
        held = {"optimizer": optimizer, "optimizers": [optimizer], "dict": {"all": optimizer}}[holder]
        trainer = types.SimpleNamespace(**{"optimizers" if holder == "dict" else holder: held})
        amp.init()
        amp.init_trainer(trainer)
        with amp.scale_loss(loss_of(model) * float("inf"), trainer) as scaled_loss:
            autograd.backward(scaled_loss)
        before = weights_of(model)
        optimizer.step()
        assert_same(weights_of(model), before)
        assert amp.loss_scale() == 32768.0

    def test_unscale_for_clipping(self, float16: torch.dtype) -> None:
        model = make_mlp()
        trainer = start(model)
        amp.init()
        amp.init_trainer(trainer)
        with amp.scale_loss(loss_of(model), trainer, delay_unscale=True) as scaled_loss:
            autograd.backward(scaled_loss)
        scaled = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        amp.unscale(trainer)
        for _ in range(2):
            unscaled = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
            assert_same(unscaled, [grad / 65536 for grad in scaled])
            amp.unscale(trainer)

    def test_an_overflow_is_seen_after_unscale(self, float16: torch.dtype) -> None:
        model = make_mlp()
        trainer = start(model)
        amp.init()
        amp.init_trainer(trainer)
        with amp.scale_loss(loss_of(model) * float("inf"), trainer, delay_unscale=True) as scaled_loss:
            autograd.backward(scaled_loss)
        amp.unscale(trainer)
        before = weights_of(model)
        trainer.step()
        assert_same(weights_of(model), before)
        assert amp.loss_scale() == 32768.0

    def test_a_second_init_trainer_changes_nothing(self, float16: torch.dtype) -> None:
        model = make_mlp()
        trainer = start(model)
        amp.init()
        amp.init_trainer(trainer)
        with amp.scale_loss(loss_of(model) * float("inf"), trainer) as scaled_loss:
            autograd.backward(scaled_loss)
        trainer.step()
        amp.init_trainer(trainer)
        assert amp.loss_scale() == 32768.0

    def test_refusals(self) -> None:
        optimizer = start(make_mlp())
        with pytest.raises(RuntimeError, match=r"amp\.init has not been called; call amp\.init\(\) before it"):
            amp.init_trainer(optimizer)
        amp.init()
        with pytest.raises(TypeError, match=r"amp\.init_trainer: int is no torch\.optim\.Optimizer, and holds none"):
            amp.init_trainer(3)
        with pytest.raises(RuntimeError, match=r"amp\.unscale: this SGD is not known"):
            amp.unscale(optimizer)


class TestWrappedOptimizers:
    def test_each_loss_has_its_scale(self, float16: torch.dtype) -> None:
        first, second = make_mlp(), make_mlp()
        handle = amp.init()
        generator = handle.wrap_optimizer(start(first), num_loss=2)
        critic = handle.wrap_optimizer(start(second))
        for factor in (1.0, float("inf")):
            with generator.scale_loss(loss_of(first) * factor) as scaled_loss:
                scaled_loss.backward()
        with critic.scale_loss(loss_of(second)) as scaled_loss:
            scaled_loss.backward()
        before, moving = weights_of(first), weights_of(second)
        generator.step()
        critic.step()
        assert_same(weights_of(first), before)
        assert not torch.equal(weights_of(second)[0], moving[0])
        assert [amp.loss_scale(index) for index in range(3)] == [65536.0, 32768.0, 65536.0]

    def test_more_losses_than_told(self, float16: torch.dtype) -> None:
        model = make_mlp()
        wrapped = amp.init().wrap_optimizer(start(model))
        for _ in range(2):
            with wrapped.scale_loss(loss_of(model)) as scaled_loss:
                scaled_loss.backward()
            wrapped.step()
        with wrapped.scale_loss(loss_of(model)) as scaled_loss:
            scaled_loss.backward()
        with pytest.raises(RuntimeError, match="more than num_loss=1"), wrapped.scale_loss(loss_of(model)):
            pass

    def test_everything_else_is_the_optimizer_s(self) -> None:
        model = make_mlp()
        optimizer = start(model)
        wrapped = amp.init().wrap_optimizer(optimizer)
        assert wrapped.param_groups is optimizer.param_groups
        assert wrapped.state_dict() == optimizer.state_dict()
        assert repr(wrapped) == repr(optimizer)
        assert not hasattr(wrapped, "no_such_thing")


class TestInit:
    def test_it_casts_with_no_model(self, float16: torch.dtype) -> None:
        handle = amp.init()
        assert product_dtype() is float16
        with handle._disable_casts():
            assert product_dtype() is torch.float32
        handle._deactivate()
        assert product_dtype() is torch.float32
        assert not handle.is_active()

    def test_target_dtype(self) -> None:
        amp.init(target_dtype="bfloat16")
        assert product_dtype() is torch.bfloat16
        with pytest.raises(ValueError, match="target_dtype is 'int8'; use \"float16\""):
            amp.init(target_dtype="int8")

    def test_disabled(self, float16: torch.dtype) -> None:
        handle = amp.init(enabled=False)
        model = make_mlp()
        optimizer = start(model)
        wrapped = handle.wrap_optimizer(optimizer)
        loss = loss_of(model)
        assert product_dtype() is torch.float32
        assert not handle.is_active()
        with handle.scale_loss(loss, optimizer) as scaled_loss:
            assert scaled_loss is loss
        with wrapped.scale_loss(loss) as scaled_loss:
            assert scaled_loss is loss
        amp.init_trainer(optimizer)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            assert scaled_loss is loss

    def test_banned_functions_are_allowed_on_request(self, float16: torch.dtype) -> None:
        x, target = torch.full((3,), 0.5, dtype=float16), torch.ones(3)
        amp.init(cast_lists="apex")
        with pytest.raises(NotImplementedError):
            nn.BCELoss()(x, target)
        amp.init(cast_lists="apex", allow_banned=True)
        assert nn.BCELoss()(x, target).dtype is torch.float32


class TestInternalState:
    """What scripts poke at."""

    def test_loss_scalers(self, float16: torch.dtype) -> None:
        model = make_mlp()
        optimizer = start(model)
        amp.initialize(model, optimizer, num_losses=2)
        scaler = amp._amp_state.loss_scalers[1]
        assert scaler.loss_scale() == 65536.0
        assert scaler.dynamic
        scaler._loss_scale = 4.0
        assert [amp.loss_scale(index) for index in (0, 1)] == [65536.0, 4.0]
        assert amp._amp_state.opt_properties.loss_scale == "dynamic"
        assert amp._amp_state.opt_properties.opt_level == "O1"

    def test_the_module_of_that_name(self) -> None:
        from ampify_runtime.amp._amp_state import _amp_state, master_params, maybe_print, warn_or_err

        assert _amp_state is amp._amp_state
        optimizer = start(make_mlp())
        assert list(master_params(optimizer)) == optimizer.param_groups[0]["params"]
        maybe_print("said")
        with pytest.raises(RuntimeError, match="wrong"):
            warn_or_err("wrong")
        assert not hasattr(_amp_state, "opt_properties")

    def test_float16_parameters_at_o1_by_permission(self, float16: torch.dtype) -> None:
        model = make_mlp()
        model[2].half()
        optimizer = start(model)
        with pytest.raises(ValueError, match="SGD has float16 parameters"):
            amp.initialize(model, optimizer)
        amp._amp_state.allow_incoming_model_not_fp32 = True
        try:
            amp.initialize(model, optimizer)
        finally:
            amp._amp_state.allow_incoming_model_not_fp32 = False
        with amp.scale_loss(loss_of(model), optimizer) as scaled_loss:
            scaled_loss.backward()
        before = weights_of(model)
        optimizer.step()
        after = weights_of(model)
        assert [tensor.dtype for tensor in after] == [torch.float32] * 2 + [float16] * 2
        assert not torch.equal(after[2], before[2])


def test_a_model_s_own_types_with_masters(float16: torch.dtype) -> None:
    """`cast_model_type=False`: what is reduced by hand has masters at O2, and nothing else is cast."""
    model = make_mlp()
    model[2].half()
    optimizer = start(model)
    amp.initialize(model, optimizer, opt_level="O2", cast_model_type=False)
    assert [tensor.dtype for tensor in weights_of(model)] == [torch.float32] * 2 + [float16] * 2
    assert {tensor.dtype for tensor in amp.master_params(optimizer)} == {torch.float32}
