"""The functions of amp_C, called as scripts call apex's: through the applier, with its orders of arguments."""

from __future__ import annotations

import math

import pytest
import torch
from ampify_runtime import amp_C
from ampify_runtime.multi_tensor_apply import multi_tensor_applier as applier

from . import stepping
from .stepping import assert_near, gradients, parameters, plainly

TYPES = [torch.float32, torch.float16, torch.bfloat16]


def flag(value: int = 0) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.int32)


def tensors(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [gradient.to(dtype) for gradient in gradients(0)]


def zeros(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.zeros_like(tensor, dtype=dtype) for tensor in tensors()]


@pytest.mark.parametrize("out_type", TYPES)
@pytest.mark.parametrize("in_type", TYPES)
def test_scale_and_axpby_across_types(in_type: torch.dtype, out_type: torch.dtype) -> None:
    overflow, xs, ys, outputs = flag(), tensors(in_type), [tensor + 1 for tensor in tensors(out_type)], zeros(out_type)
    applier(amp_C.multi_tensor_scale, overflow, [xs, outputs], 4.0)
    assert all(torch.equal(out, (x.float() * 4).to(out_type)) for x, out in zip(xs, outputs, strict=True))
    applier(amp_C.multi_tensor_axpby, overflow, [xs, ys, outputs], 2.0, -0.5, -1)
    for x, y, out in zip(xs, ys, outputs, strict=True):
        torch.testing.assert_close(out, (2 * x.float() - 0.5 * y.float()).to(out_type))
    assert overflow.item() == 0


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_overflow_is_flagged_where_it_is_looked_for(bad: float) -> None:
    good, broken = tensors(), tensors()
    broken[-1][77] = bad
    for checked, xs, ys, expected in (
        (-1, broken, good, 1),
        (-1, good, broken, 1),
        (0, broken, good, 1),
        (0, good, broken, 0),
        (1, good, broken, 1),
        (1, broken, good, 0),
    ):
        overflow = flag()
        applier(amp_C.multi_tensor_axpby, overflow, [xs, ys, zeros()], 1.0, 1.0, checked)
        assert overflow.item() == expected
    overflow = flag()
    applier(amp_C.multi_tensor_scale, overflow, [broken, zeros()], 0.5)
    assert overflow.item() == 1


@pytest.mark.parametrize("dtype", TYPES)
def test_norms(dtype: torch.dtype) -> None:
    xs = tensors(dtype)
    each = torch.stack([x.double().norm() for x in xs]).float()
    total = each.norm().reshape(1)
    found, none = applier(amp_C.multi_tensor_l2norm, flag(), [xs])
    torch.testing.assert_close(found, total)
    assert none.numel() == 0
    for function in (amp_C.multi_tensor_l2norm, amp_C.multi_tensor_l2norm_mp):
        torch.testing.assert_close(applier(function, flag(), [xs], True), (total, each))
    outputs = zeros()
    scaled = applier(amp_C.multi_tensor_l2norm_scale, flag(), [xs, outputs], 0.25, True)
    torch.testing.assert_close(scaled, (total / 4, each / 4))
    assert_near(outputs, [x.double() / 4 for x in xs], 0.0)
    unscaled = applier(amp_C.multi_tensor_unscale_l2norm, flag(), [xs], torch.tensor([0.125]), True)
    torch.testing.assert_close(unscaled, (total / 8, each / 8))
    assert applier(amp_C.multi_tensor_l2norm_mp, flag(1), [xs], True)[0].item() == 0.0


def test_a_half_norm_does_not_overflow_in_its_squares() -> None:
    total, _ = applier(amp_C.multi_tensor_l2norm, flag(), [[torch.full((4,), 3e4).half()]], False)
    torch.testing.assert_close(total, torch.tensor([6e4]), rtol=1e-3, atol=0)


ADAM = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("variant", ["host", "capturable", "master"])
def test_adam(variant: str, mode: int) -> None:
    params, first, second = [p.detach() for p in parameters()], zeros(), zeros()
    halves = [parameter.half() for parameter in params]
    plain = plainly(stepping.adam, params, decoupled=mode == 1, corrected=True, **ADAM)
    for step in range(1, 4):
        grads = [gradient.float() * (1 if variant == "host" else 8) for gradient in gradients(step)]
        plain.step(gradients(step))
        if variant == "host":
            numbers = (0.01, 0.8, 0.95, 1e-6, step, mode, 1, 0.1)
            applier(amp_C.multi_tensor_adam, flag(), [grads, params, first, second], *numbers)
            continue
        numbers = (torch.tensor(0.01), 0.8, 0.95, 1e-6, flag(step), mode, 1, 0.1, torch.tensor([0.125]))
        if variant == "capturable":
            lists = [grads, params, first, second]
            applier(amp_C.multi_tensor_adam_capturable, flag(), lists, *numbers)
            kept = [params[0].clone(), first[0].clone()]
            applier(amp_C.multi_tensor_adam_capturable, flag(1), lists, *numbers)
            assert torch.equal(params[0], kept[0])
            assert torch.equal(first[0], kept[1])
        else:
            lists = [[gradient.half() for gradient in grads], halves, first, second, params]
            applier(amp_C.multi_tensor_adam_capturable_master, flag(), lists, *numbers)
            grads = [gradient.float() for gradient in lists[0]]
            assert all(torch.equal(half, master.half()) for half, master in zip(halves, params, strict=True))
        assert_near(grads, gradients(step), 1e-3)
    assert_near(params, plain.values, 1e-6)


@pytest.mark.parametrize("after", [False, True])
def test_sgd_with_the_models_copy(after: bool) -> None:
    params, momenta = [p.detach() for p in parameters()], zeros()
    halves = [parameter.half() for parameter in params]
    choices = {"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.1, "nesterov": False, "after": after}
    plain = plainly(stepping.sgd, params, **choices)
    for step in range(3):
        lists = [[(8 * gradient).half() for gradient in gradients(step)], params, momenta, halves]
        applier(amp_C.multi_tensor_sgd, flag(), lists, 0.1, 0.9, 0.0, 0.1, False, step == 0, after, 0.125)
        plain.step(gradients(step))
        kept = params[0].clone()
        applier(amp_C.multi_tensor_sgd, flag(1), lists, 0.1, 0.9, 0.0, 0.1, False, False, after, 0.125)
        assert torch.equal(params[0], kept)
    assert_near(params, plain.values, 1e-6)
    assert all(torch.equal(half, parameter.half()) for half, parameter in zip(halves, params, strict=True))


def test_adagrad_and_novograd() -> None:
    params, sums = [p.detach() for p in parameters()], zeros()
    plain = plainly(stepping.adagrad, params, lr=0.1, eps=1e-6, weight_decay=0.1, decoupled=True)
    others, moments, norms = [p.detach() for p in parameters()], zeros(), torch.zeros(6)
    choices = {"lr": 0.1, "betas": (0.9, 0.5), "eps": 1e-6, "weight_decay": 0.1, "inside": True, "corrected": True}
    other = plainly(stepping.novograd, others, averaged=True, norm_type=2, from_zero=True, **choices)
    for step in range(1, 4):
        grads = [gradient.float() for gradient in gradients(step)]
        applier(amp_C.multi_tensor_adagrad, flag(), [grads, params, sums], 0.1, 1e-6, 1, 0.1)
        numbers = (0.1, 0.9, 0.5, 1e-6, step, 1, 0.1, 1, 0, 2)
        applier(amp_C.multi_tensor_novograd, flag(), [grads, others, moments], norms, *numbers)
        plain.step(gradients(step))
        other.step(gradients(step))
    assert_near(params, plain.values, 1e-6)
    assert_near(others, other.values, 1e-5)


LAMB = {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1, "decoupled": True, "corrected": True}


@pytest.mark.parametrize("variant", ["whole", "mixed", "stages"])
def test_lamb(variant: str) -> None:
    params, first, second = [p.detach() for p in parameters()], zeros(), zeros()
    plain = plainly(stepping.lamb, params, averaged=True, max_norm=1.0, always=False, **LAMB)
    for step in range(1, 4):
        scale = 8 if variant == "mixed" else 1
        grads = [scale * gradient.float() for gradient in gradients(step)]
        plain.step(gradients(step))
        norm, _ = applier(amp_C.multi_tensor_l2norm, flag(), [grads], False)
        lists = [grads, params, first, second]
        if variant == "whole":
            applier(amp_C.multi_tensor_lamb, flag(), lists, 0.02, 0.8, 0.95, 1e-6, step, 1, 0.1, 1, 1, norm, 1.0, False)
        elif variant == "mixed":
            numbers = (torch.tensor(0.02), 0.8, 0.95, 1e-6, flag(step), 1, 0.1, 1, 1, norm, torch.tensor([8.0]), False)
            applier(amp_C.multi_tensor_lamb_mp, flag(), lists, *numbers, torch.zeros(1), torch.tensor([0.125]))
        else:
            updates, decays = zeros(), torch.full((6,), 0.1)
            stage = (decays, step - 1, 0.8, 0.95, 1e-6, norm, 1.0)
            applier(amp_C.multi_tensor_lamb_stage1_cuda, flag(), [*lists, updates], *stage)
            lengths = [applier(amp_C.multi_tensor_l2norm, flag(), [each], True)[1] for each in (params, updates)]
            applier(amp_C.multi_tensor_lamb_stage2_cuda, flag(), [params, updates], *lengths, 0.02, 0.1, False)
    assert_near(params, plain.values, 2e-6)


def test_hysteresis_lowers_the_scale_at_the_last_overflow_that_is_borne() -> None:
    scale, growth, left = torch.tensor([64.0]), flag(), flag(2)
    for overflow, expected in (
        (1.0, (64.0, 0, 1)),
        (1.0, (32.0, 0, 0)),
        (1.0, (16.0, 0, -1)),
        (0.0, (16.0, 1, 2)),
        (0.0, (32.0, 0, 2)),
        (0.0, (32.0, 1, 2)),
        (1.0, (32.0, 0, 1)),
    ):
        amp_C.update_scale_hysteresis(scale, growth, left, torch.tensor([overflow]), 2.0, 0.5, 2, 2)
        assert (scale.item(), growth.item(), left.item()) == expected
    largest = torch.tensor([3e38])
    assert amp_C.update_scale_hysteresis(largest, flag(1), flag(1), torch.zeros(1), 2.0, 0.5, 2, 1) is largest
    assert largest.item() == pytest.approx(3e38)
