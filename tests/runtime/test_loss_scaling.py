"""Float16 under O1 follows `torch.amp.GradScaler` step for step, overflows included; scales move as documented."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from .training import assert_same, make_batches, make_net, weights_of

STEPS = 8
OVERFLOWS = (2, 3, 6)


def spoil(loss: torch.Tensor, step: int) -> torch.Tensor:
    return loss * float("inf") if step in OVERFLOWS else loss


# Not the recurrent net: torch's LSTM has no float16 on every CPU.
@pytest.mark.parametrize("optimizer_type", [torch.optim.SGD, torch.optim.AdamW])
def test_follows_grad_scaler_through_overflows(optimizer_type: Any, float16: torch.dtype) -> None:
    def by_hand() -> list[torch.Tensor]:
        model = make_net("conv")
        optimizer = optimizer_type(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu")
        trace = []
        for step, (inputs, target) in enumerate(make_batches(STEPS, 1, 8, 8)):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=float16):
                loss = spoil(F.cross_entropy(model(inputs), target), step)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            norm = clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            trace += [loss.detach(), norm, torch.tensor(scaler.get_scale()), *weights_of(model)]
        return trace

    def with_amp() -> list[torch.Tensor]:
        model = make_net("conv")
        optimizer = optimizer_type(model.parameters(), lr=0.01)
        amp.initialize(model, optimizer, verbosity=0)
        trace = []
        for step, (inputs, target) in enumerate(make_batches(STEPS, 1, 8, 8)):
            optimizer.zero_grad()
            loss = spoil(F.cross_entropy(model(inputs), target), step)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            norm = clip_grad_norm_(amp.master_params(optimizer), 0.5)
            optimizer.step()
            trace += [loss.detach(), norm, torch.tensor(amp.loss_scale()), *weights_of(model)]
        return trace

    theirs = by_hand()
    assert_same(with_amp(), theirs)


def test_accumulation_follows_grad_scaler(float16: torch.dtype) -> None:
    def by_hand() -> list[torch.Tensor]:
        model = make_net("conv")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu")
        for step, (inputs, target) in enumerate(make_batches(3 * STEPS, 1, 8, 8)):
            with torch.autocast("cpu", dtype=float16):
                loss = spoil(F.cross_entropy(model(inputs), target) / 3, step)
            scaler.scale(loss).backward()
            if step % 3 == 2:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=False)
        return [*weights_of(model), torch.tensor(scaler.get_scale())]

    def with_amp() -> list[torch.Tensor]:
        model = make_net("conv")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        amp.initialize(model, optimizer, verbosity=0)
        for step, (inputs, target) in enumerate(make_batches(3 * STEPS, 1, 8, 8)):
            loss = spoil(F.cross_entropy(model(inputs), target) / 3, step)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            if step % 3 == 2:
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
        return [*weights_of(model), torch.tensor(amp.loss_scale())]

    theirs = by_hand()
    assert_same(with_amp(), theirs)


def two_heads() -> tuple[nn.Module, nn.Module, nn.Module]:
    torch.manual_seed(4)
    return nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 3)


def test_two_optimizers_of_one_loss_skip_together(float16: torch.dtype) -> None:
    """One loss, two optimizers, one scale: both skip where either overflows, as apex's did; the scale moves once."""

    def run(ours: bool) -> list[torch.Tensor]:
        trunk, left, right = two_heads()
        first = torch.optim.SGD([*trunk.parameters(), *left.parameters()], lr=0.1)
        second = torch.optim.SGD(right.parameters(), lr=0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", growth_interval=2000)
        if ours:
            amp.initialize([trunk, left, right], [first, second], verbosity=0)
        trace = []
        for step, (inputs, target) in enumerate(make_batches(STEPS, 8)):
            first.zero_grad()
            second.zero_grad()
            if ours:
                hidden = trunk(inputs)
                loss = spoil(F.cross_entropy(left(hidden), target), step) + F.cross_entropy(
                    right(hidden.detach()), target
                )
                with amp.scale_loss(loss, [first, second]) as scaled_loss:
                    scaled_loss.backward()
                first.step()
                second.step()
                trace.append(torch.tensor(amp.loss_scale()))
            else:
                with torch.autocast("cpu", dtype=float16):
                    hidden = trunk(inputs)
                    loss = spoil(F.cross_entropy(left(hidden), target), step) + F.cross_entropy(
                        right(hidden.detach()), target
                    )
                scaler.scale(loss).backward()
                if not torch.isfinite(loss):
                    # GradScaler would step it: its own gradients are finite.
                    for parameter in right.parameters():
                        parameter.grad.fill_(float("inf"))
                scaler.step(first)
                scaler.step(second)
                scaler.update()
                trace.append(torch.tensor(scaler.get_scale()))
        return [*trace, *weights_of(trunk, left, right)]

    theirs = run(ours=False)
    assert_same(run(ours=True), theirs)


def gradients(*optimizers: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p.grad.clone() for optimizer in optimizers for p in amp.master_params(optimizer) if p.grad is not None]


class TestUnscaledGradients:
    """After a block, gradients read as without amp: fp32 weights and losses, so that they can be compared exactly."""

    @pytest.fixture
    def parts(self) -> tuple[nn.Module, nn.Module, torch.optim.Optimizer, torch.optim.Optimizer]:
        torch.manual_seed(5)
        first, second = nn.Linear(4, 4), nn.Linear(4, 4)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (first, second)]
        amp.initialize([first, second], optimizers, opt_level="O0", loss_scale="dynamic", num_losses=3)
        return first, second, optimizers[0], optimizers[1]

    def plain(self, *losses: torch.Tensor, of: list[torch.Tensor]) -> list[torch.Tensor]:
        sums = [torch.zeros_like(p) for p in of]
        for loss in losses:
            grads = torch.autograd.grad(loss, of, retain_graph=True, allow_unused=True)
            sums = [s if g is None else s + g for s, g in zip(sums, grads, strict=True)]
        return sums

    def test_both_optimizers_given_to_both_blocks(self, parts: Any) -> None:
        first, second, opt1, opt2 = parts
        x = torch.randn(3, 4)
        loss1, loss2 = first(x).square().mean(), second(x).square().mean()
        expected = self.plain(loss1, loss2, of=[*first.parameters(), *second.parameters()])
        for loss in (loss1, loss2):
            with amp.scale_loss(loss, [opt1, opt2]) as scaled_loss:
                scaled_loss.backward()
        assert_same(gradients(opt1, opt2), expected)

    def test_a_loss_that_feeds_an_optimizer_it_was_not_given_with(self, parts: Any) -> None:
        first, second, opt1, opt2 = parts
        x = torch.randn(3, 4)
        own, joint = first(x).square().mean(), second(first(x)).square().mean()
        expected = self.plain(own, joint, own, of=[*first.parameters(), *second.parameters()])
        for loss, optimizer in ((own, opt1), (joint, opt2), (own, opt1)):
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward(retain_graph=True)
        assert_same(gradients(opt1, opt2), expected)

    def test_optimizers_left_out_means_all(self, parts: Any) -> None:
        first, second, opt1, opt2 = parts
        loss = second(first(torch.randn(3, 4))).square().mean()
        expected = self.plain(loss, of=[*first.parameters(), *second.parameters()])
        with amp.scale_loss(loss) as scaled_loss:
            assert scaled_loss.item() == pytest.approx(loss.item() * 65536)
            scaled_loss.backward()
        assert_same(gradients(opt1, opt2), expected)

    @pytest.mark.parametrize("container", [list, tuple, iter])
    def test_several_losses_in_one_block(self, parts: Any, container: Any) -> None:
        first, second, opt1, opt2 = parts
        x = torch.randn(3, 4)
        losses = [first(x).square().mean(), second(x).square().mean()]
        expected = self.plain(*losses, of=[*first.parameters(), *second.parameters()])
        with amp.scale_loss(container(losses), (opt1, opt2)) as scaled_losses:
            assert type(scaled_losses) is (tuple if container is tuple else list)
            torch.autograd.backward(scaled_losses)
        assert_same(gradients(opt1, opt2), expected)

    def test_blocks_inside_of_a_block_with_other_scales(self, parts: Any) -> None:
        first, second, opt1, opt2 = parts
        amp.load_state_dict({f"loss_scaler{i}": {"loss_scale": 2.0 ** (10 + i), "unskipped": 0} for i in range(3)})
        x = torch.randn(3, 4)
        loss1, loss2 = first(x).square().mean(), second(first(x)).square().mean()
        expected = self.plain(loss1, loss2, of=[*first.parameters(), *second.parameters()])
        with amp.scale_loss(loss1, opt1, loss_id=0) as scaled1, amp.scale_loss(loss2, opt2, loss_id=1) as scaled2:
            (scaled1 + scaled2).backward()
        assert_same(gradients(opt1, opt2), expected)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            opt1.step()
            opt2.step()

    def test_the_tensors_in_grad_stay_the_same(self, parts: Any) -> None:
        first, _, opt1, _ = parts
        x = torch.randn(3, 4)
        first(x).sum().backward()
        before = [p.grad for p in first.parameters()]
        with amp.scale_loss(first(x).square().mean(), opt1) as scaled_loss:
            scaled_loss.backward()
        assert all(p.grad is grad for p, grad in zip(first.parameters(), before, strict=True))

    def test_delayed_unscaling_leaves_gradients_scaled_until_a_block_that_does_not_delay(self, parts: Any) -> None:
        first, _, opt1, _ = parts
        x = torch.randn(3, 4)
        loss = first(x).square().mean()
        expected = self.plain(loss, of=list(first.parameters()))
        with amp.scale_loss(loss, opt1, delay_unscale=True) as scaled_loss:
            scaled_loss.backward(retain_graph=True)
        assert_same(gradients(opt1), [g * 65536 for g in expected])
        with amp.scale_loss(loss, opt1, loss_id=1) as scaled_loss:
            scaled_loss.backward()
        assert_same(gradients(opt1), [g + g for g in expected])

    def test_a_step_unscales_what_a_block_left_scaled(self, parts: Any) -> None:
        first, _, opt1, _ = parts
        loss = first(torch.randn(3, 4)).square().mean()
        expected = [
            p - 0.1 * g for p, g in zip(first.parameters(), self.plain(loss, of=list(first.parameters())), strict=True)
        ]
        with amp.scale_loss(loss, opt1, delay_unscale=True) as scaled_loss:
            scaled_loss.backward()
        opt1.step()
        torch.testing.assert_close(list(first.parameters()), [nn.Parameter(p) for p in expected], rtol=1e-6, atol=0)

    def test_a_parameter_of_two_optimizers_is_unscaled_once(self) -> None:
        layer = nn.Linear(4, 4)
        both = [torch.optim.SGD(layer.parameters(), lr=0.1), torch.optim.Adam(layer.parameters())]
        amp.initialize(layer, both, opt_level="O0", loss_scale="dynamic")
        loss = layer(torch.randn(3, 4)).square().mean()
        expected = self.plain(loss, loss, of=list(layer.parameters()))
        for _ in range(2):
            with amp.scale_loss(loss, both) as scaled_loss:
                scaled_loss.backward(retain_graph=True)
        assert_same([p.grad for p in layer.parameters() if p.grad is not None], expected)

    def test_sparse_gradients(self) -> None:
        torch.manual_seed(6)
        table = nn.Embedding(10, 3, sparse=True)
        optimizer = torch.optim.SparseAdam(list(table.parameters()))
        amp.initialize(table, optimizer, opt_level="O0", loss_scale="dynamic")
        index = torch.tensor([1, 4, 1])
        (expected,) = torch.autograd.grad(table(index).square().sum(), [table.weight])
        for _ in range(2):
            with amp.scale_loss(table(index).square().sum(), optimizer) as scaled_loss:
                scaled_loss.backward()
        assert table.weight.grad is not None
        assert_same([table.weight.grad.to_dense()], [expected.to_dense() * 2])
        optimizer.step()


def overflow_then_step(loss_id: int, optimizer: torch.optim.Optimizer, model: nn.Module, overflow: bool) -> None:
    optimizer.zero_grad()
    loss = model(torch.ones(1, 4)).square().mean()
    with amp.scale_loss(loss * float("inf") if overflow else loss, optimizer, loss_id=loss_id) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()


class TestScales:
    @pytest.fixture
    def model(self) -> nn.Module:
        return nn.Linear(4, 1)

    def start(self, model: nn.Module, **keywords: Any) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        amp.initialize(model, optimizer, **({"opt_level": "O0", "loss_scale": "dynamic", "verbosity": 0} | keywords))
        return optimizer

    def test_starts_at_two_to_the_sixteenth(self, model: nn.Module) -> None:
        self.start(model)
        assert amp.loss_scale() == 65536.0

    def test_starts_at_the_cap_if_that_is_lower(self, model: nn.Module) -> None:
        self.start(model, max_loss_scale="1024")
        assert amp.loss_scale() == 1024.0

    def test_doubles_after_2000_clean_steps_up_to_the_cap(self, model: nn.Module) -> None:
        optimizer = self.start(model, max_loss_scale=2.0**17)
        scales = []
        for _ in range(2):
            amp.load_state_dict({"loss_scaler0": {"loss_scale": amp.loss_scale(), "unskipped": 1998}})
            for _ in range(2):
                overflow_then_step(0, optimizer, model, overflow=False)
                scales.append(amp.loss_scale())
        assert scales == [65536.0, 131072.0, 131072.0, 131072.0]

    def test_halves_per_overflow_down_to_the_floor(self, model: nn.Module) -> None:
        optimizer = self.start(model, min_loss_scale="16384.0")
        scales = []
        for _ in range(4):
            overflow_then_step(0, optimizer, model, overflow=True)
            scales.append(amp.loss_scale())
        assert scales == [32768.0, 16384.0, 16384.0, 16384.0]

    def test_never_reaches_zero(self, model: nn.Module) -> None:
        optimizer = self.start(model)
        amp.load_state_dict({"loss_scaler0": {"loss_scale": 2.0**-23, "unskipped": 0}})
        for _ in range(4):
            overflow_then_step(0, optimizer, model, overflow=True)
        assert amp.loss_scale() == 2.0**-24

    def test_a_static_scale_stays_and_still_skips(self, model: nn.Module) -> None:
        optimizer = self.start(model, loss_scale="128.0")
        before = weights_of(model)
        overflow_then_step(0, optimizer, model, overflow=True)
        assert_same(weights_of(model), before)
        assert amp.loss_scale() == 128.0
        overflow_then_step(0, optimizer, model, overflow=False)
        assert not torch.equal(weights_of(model)[0], before[0])

    def test_each_loss_has_its_scale(self, model: nn.Module) -> None:
        optimizer = self.start(model, num_losses="2")
        overflow_then_step(1, optimizer, model, overflow=True)
        assert (amp.loss_scale(0), amp.loss_scale(1)) == (65536.0, 32768.0)

    def test_an_overflow_is_charged_to_its_own_loss(self, model: nn.Module) -> None:
        optimizer = self.start(model, num_losses=3)
        for loss_id, factor in enumerate((1.0, float("inf"), 1.0)):
            with amp.scale_loss(model(torch.ones(1, 4)).sum() * factor, optimizer, loss_id=loss_id) as scaled_loss:
                scaled_loss.backward()
        before = weights_of(model)
        optimizer.step()
        assert [amp.loss_scale(i) for i in range(3)] == [65536.0, 32768.0, 65536.0]
        assert_same(weights_of(model), before)

    def test_the_scale_does_not_move_between_steps(self, model: nn.Module) -> None:
        optimizer = self.start(model)
        for factor in (float("inf"), 1.0, 1.0):
            with amp.scale_loss(model(torch.ones(1, 4)).sum() * factor, optimizer) as scaled_loss:
                scaled_loss.backward()
            assert amp.loss_scale() == 65536.0
        optimizer.step()
        assert amp.loss_scale() == 32768.0

    def test_gradients_zeroed_after_an_overflow_are_not_held_against_the_next_step(self, model: nn.Module) -> None:
        optimizer = self.start(model)
        with amp.scale_loss(model(torch.ones(1, 4)).sum() * float("inf"), optimizer) as scaled_loss:
            scaled_loss.backward()
        before = weights_of(model)
        overflow_then_step(0, optimizer, model, overflow=False)
        assert not torch.equal(weights_of(model)[0], before[0])

    def test_a_delayed_check_is_made_by_the_step(self, model: nn.Module) -> None:
        optimizer = self.start(model)
        with amp.scale_loss(
            model(torch.ones(1, 4)).sum() * float("inf"), optimizer, delay_overflow_check=True
        ) as scaled_loss:
            scaled_loss.backward()
        before = weights_of(model)
        optimizer.step()
        assert_same(weights_of(model), before)
        assert amp.loss_scale() == 32768.0

    def test_reduced_precision_losses_are_scaled_in_float32(self, model: nn.Module) -> None:
        optimizer = self.start(model)
        with amp.scale_loss(torch.ones(1, dtype=torch.float16, requires_grad=True), optimizer) as scaled_loss:
            assert scaled_loss.dtype is torch.float32
            assert scaled_loss.item() == 65536.0
