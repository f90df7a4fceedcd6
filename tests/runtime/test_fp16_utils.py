"""`ampify_runtime.fp16_utils`: models in half precision, masters by hand, and the optimizer that keeps them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from ampify_runtime import fp16_utils
from ampify_runtime.fp16_utils import DynamicLossScaler, FP16_Optimizer, LossScaler
from torch import nn

from .training import X, assert_same, make_mlp

HALF, FULL = torch.float16, torch.float32


class Net(nn.Module):
    """Norms with and without parameters, nested."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(8, 4)
        self.inner = nn.Sequential(nn.BatchNorm1d(4), nn.BatchNorm1d(4, affine=False))
        self.last = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.inner(self.first(x)))


def dtypes(module: nn.Module) -> dict[str, torch.dtype]:
    return {name: tensor.dtype for name, tensor in module.state_dict().items() if tensor.is_floating_point()}


class TestConversion:
    def test_network_to_half(self) -> None:
        model = fp16_utils.network_to_half(Net())
        found = dtypes(model)
        fulls = {name for name, dtype in found.items() if dtype is FULL}
        assert fulls == {f"1.inner.0.{name}" for name in ("weight", "bias", "running_mean", "running_var")}
        assert model(X.repeat(3, 1)).dtype is HALF

    def test_fp16_model(self) -> None:
        model = fp16_utils.FP16Model(Net())
        assert dtypes(model)["network.first.weight"] is HALF
        assert dtypes(model)["network.inner.0.weight"] is FULL
        assert dtypes(model)["network.inner.1.running_mean"] is HALF
        assert model(X.repeat(3, 1)).dtype is HALF

    def test_convert_module_leaves_children_alone(self) -> None:
        model = Net()
        model.own = nn.Parameter(torch.ones(2))
        model.own.grad = torch.ones(2)
        model.register_buffer("count", torch.ones(1, dtype=torch.int64))
        fp16_utils.convert_module(model, torch.bfloat16)
        assert model.own.dtype is torch.bfloat16
        assert model.own.grad.dtype is torch.bfloat16
        assert model.count.dtype is torch.int64
        assert model.first.weight.dtype is FULL

    def test_convert_network_of_recurrent_layers(self) -> None:
        model = fp16_utils.convert_network(nn.LSTM(4, 3), torch.bfloat16)
        assert model(torch.ones(2, 1, 4, dtype=torch.bfloat16))[0].dtype is torch.bfloat16

    def test_norms_back_to_float(self) -> None:
        model = fp16_utils.BN_convert_float(Net().half())
        assert dtypes(model)["inner.0.bias"] is FULL
        assert dtypes(model)["last.bias"] is HALF


def half_mlp() -> nn.Module:
    return make_mlp().half()


class TestMastersByHand:
    @pytest.mark.parametrize("flat", [False, True])
    def test_a_training_loop(self, flat: bool) -> None:
        """Against steps in fp32 on weights and gradients rounded to float16."""
        model = half_mlp()
        model[0].bias.requires_grad_(False)
        params, masters = fp16_utils.prep_param_lists(model, flat_master=flat)
        assert len(params) == 3
        assert len(masters) == (1 if flat else 3)
        reference = [parameter.detach().float() for parameter in params]
        optimizer = torch.optim.SGD(masters, lr=0.1)
        for _ in range(3):
            model.zero_grad()
            (model(X.half()).float().square().mean() * 128).backward()
            fp16_utils.model_grads_to_master_grads(params, masters, flat_master=flat)
            for master in masters:
                master.grad.div_(128)
            for place, parameter in enumerate(params):
                reference[place] = reference[place] - 0.1 * (parameter.grad.float() / 128)
            optimizer.step()
            fp16_utils.master_params_to_model_params(params, masters, flat_master=flat)
            torch.testing.assert_close([p.detach() for p in params], [value.half() for value in reference])

    def test_a_parameter_without_gradient(self) -> None:
        params, masters = fp16_utils.prep_param_lists(half_mlp())
        params[0].grad = torch.ones_like(params[0])
        masters[1].grad = torch.ones_like(masters[1])
        fp16_utils.model_grads_to_master_grads(params, masters)
        assert masters[0].grad.dtype is FULL
        assert [master.grad for master in masters[1:]] == [None, None, None]

    def test_one_master_of_several_types(self) -> None:
        with pytest.raises(ValueError, match="which one flat master cannot hold; pass flat_master=False"):
            fp16_utils.prep_param_lists(fp16_utils.FP16Model(Net()), flat_master=True)

    def test_small_things(self) -> None:
        assert fp16_utils.to_python_float(torch.tensor([2.0])) == 2.0
        assert fp16_utils.to_python_float([3.0]) == 3.0
        assert fp16_utils.clip_grad_norm is nn.utils.clip_grad_norm_
        assert fp16_utils.tofp16()(X).dtype is HALF


class TestLossScalers:
    def test_dynamic(self) -> None:
        scaler = DynamicLossScaler(init_scale=16.0, scale_window=2)
        assert DynamicLossScaler().loss_scale == 2.0**32
        scales = []
        for overflow in (False, True, False, False, True, True, True, True):
            scaler.update_scale(overflow)
            scales.append(scaler.loss_scale)
        assert scales == [16.0, 8.0, 8.0, 16.0, 8.0, 4.0, 2.0, 1.0]
        scaler.update_scale(True)
        assert scaler.loss_scale == 1

    @pytest.mark.parametrize(("value", "overflows"), [(1.0, False), (float("inf"), True), (float("nan"), True)])
    def test_overflow(self, value: float, overflows: bool) -> None:
        parameter = nn.Parameter(torch.ones(2))
        assert not DynamicLossScaler().has_overflow([parameter])
        parameter.grad = torch.tensor([1.0, value])
        assert DynamicLossScaler().has_overflow([parameter]) is overflows
        assert LossScaler(8.0).has_overflow([parameter]) is False

    def test_static(self) -> None:
        scaler = LossScaler(8.0)
        scaler.update_scale(True)
        w = torch.ones(1, requires_grad=True)
        scaler.backward(w.sum())
        assert w.grad == 8.0
        assert scaler.scale_gradient(None, (torch.ones(1),), None) == (8.0,)


def by_hand(steps: int) -> list[torch.Tensor]:
    """fp32 masters after steps of momentum on gradients of a float16 model, without scaling."""
    model = mixed_model()
    masters = [parameter.detach().float().requires_grad_() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.1, momentum=0.9)
    for _ in range(steps):
        model.zero_grad()
        loss_of(model).backward()
        for parameter, master in zip(model.parameters(), masters, strict=True):
            master.grad = parameter.grad.float()
        optimizer.step()
        with torch.no_grad():
            for parameter, master in zip(model.parameters(), masters, strict=True):
                parameter.copy_(master)
    return [master.detach() for master in masters]


def mixed_model() -> nn.Module:
    """float16 but for a norm."""
    torch.manual_seed(1)
    return fp16_utils.network_to_half(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))


def loss_of(model: nn.Module) -> torch.Tensor:
    return model(X.repeat(2, 1) + torch.linspace(0, 1, 4).unsqueeze(1)).float().square().mean()


def wrapped(model: nn.Module, **options: Any) -> FP16_Optimizer:
    return FP16_Optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), **options)


def masters_of(optimizer: FP16_Optimizer) -> list[torch.Tensor]:
    return [parameter.detach() for group in optimizer.param_groups for parameter in group["params"]]


def train(optimizer: FP16_Optimizer, model: nn.Module, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        optimizer.backward(loss_of(model))
        optimizer.step()


class TestFP16Optimizer:
    @pytest.mark.parametrize("options", [{}, {"static_loss_scale": 128.0}, {"dynamic_loss_scale": True}])
    def test_it_steps_fp32_masters(self, options: dict[str, Any]) -> None:
        model = mixed_model()
        optimizer = wrapped(model, **options)
        train(optimizer, model, 4)
        torch.testing.assert_close(masters_of(optimizer), by_hand(4), rtol=2e-3, atol=2e-4)
        for parameter, master in zip(model.parameters(), masters_of(optimizer), strict=True):
            assert_same([parameter.detach()], [master.to(parameter.dtype)])

    def test_an_overflow_skips_the_step(self, caplog: pytest.LogCaptureFixture) -> None:
        model = mixed_model()
        optimizer = wrapped(model, dynamic_loss_scale=True, dynamic_loss_args={"init_scale": 1024.0})
        before = [master.clone() for master in masters_of(optimizer)]
        optimizer.backward(loss_of(model) * float("inf"))
        assert optimizer.overflow
        assert optimizer.clip_master_grads(1.0) == -1
        assert optimizer.inspect_master_grad_data() is None
        optimizer.step()
        assert_same(masters_of(optimizer), before)
        assert optimizer.loss_scale == 512.0
        assert "gradient overflow: step skipped; loss scale: 512" in caplog.text

    def test_the_scale_grows_to_its_limit(self) -> None:
        model = mixed_model()
        args = {"init_scale": 4.0, "scale_window": 2, "max_loss_scale": 8.0}
        optimizer = wrapped(model, dynamic_loss_scale=True, dynamic_loss_args=args)
        scales = []
        for _ in range(5):
            train(optimizer, model, 1)
            scales.append(optimizer.loss_scale)
        assert scales == [4.0, 8.0, 8.0, 8.0, 8.0]

    @pytest.mark.parametrize("early", [True, False])
    def test_gradients_of_several_losses_add_up(self, early: bool) -> None:
        """Those of fp32 parameters too, which are divided in place."""
        model = mixed_model()
        optimizer = wrapped(model, static_loss_scale=64.0)
        for _ in range(2):
            optimizer.backward(loss_of(model), update_master_grads=early)
        if not early:
            optimizer.update_master_grads()
        other = mixed_model()
        (loss_of(other) * 2).backward()
        grads = optimizer.inspect_master_grad_data()
        assert grads is not None
        expected = [parameter.grad.float() for parameter in other.parameters()]
        torch.testing.assert_close(grads[0], expected, rtol=2e-3, atol=1e-4)

    def test_clipping(self) -> None:
        model = mixed_model()
        optimizer = wrapped(model, static_loss_scale=64.0)
        optimizer.backward(loss_of(model))
        norm = optimizer.clip_master_grads(0.01)
        grads = optimizer.inspect_master_grad_data()
        assert norm > 0.01
        assert grads is not None
        torch.testing.assert_close(torch.cat([grad.flatten() for grad in grads[0]]).norm(), torch.tensor(0.01))

    def test_zero_grad(self) -> None:
        model = mixed_model()
        optimizer = wrapped(model)
        optimizer.backward(loss_of(model))
        optimizer.zero_grad()
        assert all(not parameter.grad.any() for parameter in model.parameters())
        optimizer.zero_grad(set_grads_to_None=True)
        assert all(parameter.grad is None for parameter in [*model.parameters(), *masters_of(optimizer)])

    def test_a_closure(self) -> None:
        model = mixed_model()
        args = {"init_scale": 2.0**24, "scale_factor": 2.0**10}
        optimizer = wrapped(model, dynamic_loss_scale=True, dynamic_loss_args=args)
        before = [master.clone() for master in masters_of(optimizer)]

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model)
            optimizer.backward(loss)
            return loss

        loss = optimizer.step(closure)
        assert torch.isfinite(loss)
        assert optimizer.loss_scale == 2.0**14
        assert not torch.equal(masters_of(optimizer)[0], before[0])

    def test_a_closure_that_never_is_finite(self) -> None:
        model = mixed_model()
        optimizer = wrapped(model, dynamic_loss_scale=True, verbose=False)
        with pytest.raises(FloatingPointError, match="look for inf or NaN in the data"):
            optimizer.step(lambda: optimizer.backward(loss_of(model) * float("nan")))

    def test_it_resumes_exactly(self, tmp_path: Path) -> None:
        model = mixed_model()
        optimizer = wrapped(model, dynamic_loss_scale=True)
        train(optimizer, model, 2)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "saved.pt")
        train(optimizer, model, 2)

        resumed = mixed_model()
        again = wrapped(resumed, dynamic_loss_scale=True)
        saved = torch.load(tmp_path / "saved.pt", weights_only=True)
        resumed.load_state_dict(saved["model"])
        again.load_state_dict(saved["optimizer"])
        train(again, resumed, 2)
        assert_same(masters_of(again), masters_of(optimizer))
        assert again.loss_scaler.state_dict() == optimizer.loss_scaler.state_dict()

    def test_state_of_an_optimizer_that_has_stepped(self) -> None:
        model = mixed_model()
        inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        loss_of(model).backward()
        inner.step()
        optimizer = FP16_Optimizer(inner)
        master = optimizer.param_groups[0]["params"][0]
        buffer = optimizer.state[master]["momentum_buffer"]
        assert buffer.dtype is FULL
        assert_same([buffer], [next(model.parameters()).grad.float()])

    def test_rates_and_scale_can_be_set(self) -> None:
        optimizer = wrapped(mixed_model(), static_loss_scale=2.0)
        optimizer.param_groups[0]["lr"] = 0.5
        optimizer.loss_scale = 4.0
        assert optimizer.optimizer.param_groups[0]["lr"] == 0.5
        assert optimizer.loss_scale == 4.0

    def test_refusals(self) -> None:
        with pytest.raises(TypeError, match=r"a parameter is torch\.float64; use float16 and float32"):
            wrapped(make_mlp().double())
        with pytest.raises(ValueError, match=r"the loss scale is 0\.0; pass a positive number"):
            wrapped(mixed_model(), static_loss_scale=0.0)
        with pytest.raises(RuntimeError, match=r"save its state_dict\(\)"):
            copy.deepcopy(wrapped(mixed_model()))
