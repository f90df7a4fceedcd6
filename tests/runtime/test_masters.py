"""fp32 masters (O2, O5): in the optimizer's groups, with its state, through whatever scripts do to either."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import StepLR

from .training import X, assert_same, backward, make_batches, make_mlp, make_net, weights_of

LEVELS = ["O2", "O5"]


def start(level: str = "O2", model: nn.Module | None = None, **keywords: Any) -> tuple[Any, torch.optim.Optimizer]:
    model = make_mlp() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0, **keywords)
    return model, optimizer


def masters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def assert_model_follows(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    masters = masters_of(optimizer)
    assert_same(
        [p.detach() for p in model.parameters()],
        [m.detach().to(p.dtype) for p, m in zip(model.parameters(), masters, strict=True)],
    )


def by_hand(level: str, steps: int, accumulate: int = 1, overflows: tuple[int, ...] = ()) -> list[torch.Tensor]:
    """What O2 and O5 do, written out: a reduced model, fp32 masters, GradScaler's rule for the scale."""
    dtype = torch.float16 if level == "O2" else torch.bfloat16
    scale = 65536.0 if level == "O2" else 1.0
    masters = [p.detach().clone().requires_grad_() for p in make_mlp().parameters()]
    model = make_mlp().to(dtype)
    optimizer = torch.optim.SGD(masters, lr=0.1, momentum=0.9)
    for step in range(steps):
        for inputs, target in make_batches(steps * accumulate, 8)[step * accumulate :][:accumulate]:
            loss = F.cross_entropy(model(inputs.to(dtype)).float(), target) / accumulate
            (loss * (float("inf") if step in overflows else 1.0) * scale).backward()
        for p, master in zip(model.parameters(), masters, strict=True):
            assert p.grad is not None
            master.grad = p.grad.float() / scale
        norm = clip_grad_norm_(masters, 0.5)
        if torch.isfinite(norm):
            optimizer.step()
        else:
            scale /= 2
        for p, master in zip(model.parameters(), masters, strict=True):
            p.data.copy_(master.data)
            p.grad = None
    return [*(m.detach() for m in masters), *(p.detach() for p in model.parameters()), torch.tensor(scale)]


def with_amp(
    level: str, steps: int, accumulate: int = 1, overflows: tuple[int, ...] = (), **block: Any
) -> list[torch.Tensor]:
    model, optimizer = start(level)
    for step in range(steps):
        for inputs, target in make_batches(steps * accumulate, 8)[step * accumulate :][:accumulate]:
            loss = F.cross_entropy(model(inputs), target) / accumulate
            loss = loss * (float("inf") if step in overflows else 1.0)
            with amp.scale_loss(loss, optimizer, **block) as scaled_loss:
                scaled_loss.backward()
        clip_grad_norm_(amp.master_params(optimizer), 0.5)
        optimizer.step()
        optimizer.zero_grad()
    return [
        *(m.detach() for m in masters_of(optimizer)),
        *(p.detach() for p in model.parameters()),
        torch.tensor(amp.loss_scale()),
    ]


@pytest.mark.parametrize("level", LEVELS)
class TestTraining:
    def test_follows_what_is_written_by_hand(self, level: str) -> None:
        assert_same(with_amp(level, 6), by_hand(level, 6))

    @pytest.mark.parametrize("delayed", [True, False])
    def test_accumulation(self, level: str, delayed: bool) -> None:
        ours = with_amp(level, 4, accumulate=3, delay_unscale=delayed)
        assert_same(ours, by_hand(level, 4, accumulate=3))

    def test_without_blocks_where_nothing_is_scaled(self, level: str) -> None:
        keywords = {"loss_scale": 1.0} if level == "O2" else {}
        results = []
        for in_block in (True, False):
            model, optimizer = start(level, **keywords)
            for inputs, target in make_batches(4, 8):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(inputs), target)
                if in_block:
                    with amp.scale_loss(loss, optimizer) as scaled_loss:
                        scaled_loss.backward()
                else:
                    loss.backward()
                optimizer.step()
            results.append(weights_of(model))
        assert_same(*results)

    def test_no_update_is_lost_that_is_too_small_for_the_model(self, level: str) -> None:
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, 1.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        amp.initialize(model, optimizer, opt_level=level, verbosity=0, max_loss_scale=1024)
        for _ in range(100):
            optimizer.zero_grad()
            with amp.scale_loss(model(torch.ones(1, 1)).sum(), optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
        assert model.state_dict()["weight"].item() == pytest.approx(0.99, abs=1e-5)
        assert model.weight.item() == pytest.approx(0.99, abs=0.004)
        assert model.weight.item() < 1.0


def test_overflows_are_skipped_and_lower_the_scale() -> None:
    assert_same(with_amp("O2", 6, overflows=(1, 2, 4)), by_hand("O2", 6, overflows=(1, 2, 4)))


class TestEagerMasters:
    @pytest.mark.parametrize("level", LEVELS)
    def test_are_there_at_once_with_the_unrounded_weights(self, level: str) -> None:
        before = [p.detach().clone() for p in make_mlp().parameters()]
        model, optimizer = start(level)
        masters = masters_of(optimizer)
        assert_same([m.detach() for m in masters], before)
        assert {m.dtype for m in masters} == {torch.float32}
        assert_model_follows(model, optimizer)

    def test_a_step_before_any_backward_does_nothing(self) -> None:
        model, optimizer = start()
        before = weights_of(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.step()
        assert_same(weights_of(model), before)

    def test_norms_are_their_own(self) -> None:
        model, optimizer = start(model=make_net("conv"))
        assert any(p is model.norm1.weight for p in masters_of(optimizer))
        assert not any(p is model.conv1.weight for p in masters_of(optimizer))

    def test_marks_on_parameters_are_on_masters_too(self) -> None:
        model = make_mlp()
        model[0].weight.no_decay = True
        _, optimizer = start(model=model)
        assert masters_of(optimizer)[0].no_decay


@pytest.mark.parametrize("level", LEVELS)
def test_state_of_an_optimizer_that_has_stepped_is_carried_over(level: str) -> None:
    # A norm, which is its own master, among the others.
    model = nn.Sequential(make_mlp(), nn.LayerNorm(3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(X).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    before = copy.deepcopy(optimizer.state_dict())
    amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert list(after["state"]) == list(before["state"])
    for index, state in before["state"].items():
        assert_same(list(after["state"][index].values()), list(state.values()))
    backward(model, optimizer)
    optimizer.step()
    assert optimizer.state[masters_of(optimizer)[0]]["step"].item() == 2


class TestGroups:
    @pytest.mark.parametrize("when", ["before", "after", "after a step", "by hand"])
    def test_a_group_that_is_added(self, when: str) -> None:
        trunk, head = nn.Linear(8, 8), nn.Linear(8, 3)
        model = nn.Sequential(trunk, head)
        optimizer = torch.optim.SGD(trunk.parameters(), lr=0.1)
        add = lambda: optimizer.add_param_group({"params": list(head.parameters()), "lr": 0.2})  # noqa: E731
        if when == "before":
            add()
        amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
        if when == "after a step":
            backward(model, optimizer)
            optimizer.step()
            model.zero_grad()
        if when == "by hand":
            optimizer.param_groups[0]["params"] += list(head.parameters())
        elif when != "before":
            add()
        before = head.weight.detach().clone()
        backward(model, optimizer)
        clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()
        assert {p.dtype for p in masters_of(optimizer)} == {torch.float32}
        assert not torch.equal(head.weight, before)
        optimizer.zero_grad()
        assert all(p.grad is None for p in (*model.parameters(), *masters_of(optimizer)))

    def test_learning_rates_of_schedulers_made_before_and_after(self) -> None:
        model = make_mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        early = StepLR(optimizer, 1, gamma=0.5)
        amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
        late = StepLR(optimizer, 1, gamma=0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for overflow in (True, False):
                optimizer.zero_grad()
                backward(model, optimizer, overflow)
                optimizer.step()
                early.step()
                late.step()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.05**2)

    def test_unfreezing_later(self) -> None:
        model = make_mlp()
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
        before = model[0].weight.detach().clone()
        for frozen in (True, False):
            model[0].requires_grad_(not frozen)
            optimizer.zero_grad()
            backward(model, optimizer)
            optimizer.step()
            assert torch.equal(model[0].weight, before) == frozen
            assert_model_follows(model, optimizer)

    @pytest.mark.parametrize("level", LEVELS)
    def test_a_parameter_of_two_optimizers_has_one_master(self, level: str) -> None:
        model = make_mlp()
        both = [torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(model.parameters(), lr=0.01)]
        amp.initialize(model, both, opt_level=level, verbosity=0)
        assert all(p is q for p, q in zip(masters_of(both[0]), masters_of(both[1]), strict=True))
        with amp.scale_loss(model(X).square().mean(), both) as scaled_loss:
            scaled_loss.backward()
        grads = [m.grad.clone() for m in amp.master_params(both[1]) if m.grad is not None]
        expected = [p.grad.float() / amp.loss_scale() for p in model.parameters() if p.grad is not None]
        assert_same(grads, expected)
        before = [m.detach().clone() for m in masters_of(both[0])]
        both[0].step()
        both[1].step()
        torch.testing.assert_close(
            [m.detach() for m in masters_of(both[0])], [m - 0.11 * g for m, g in zip(before, grads, strict=True)]
        )
        assert_model_follows(model, both[0])


class TestZeroing:
    @pytest.mark.parametrize("set_to_none", [True, False])
    @pytest.mark.parametrize("spelling", ["optimizer", "model"])
    def test_both_spellings(self, spelling: str, set_to_none: bool) -> None:
        model, optimizer = start(model=make_net("conv"))
        inputs, target = make_batches(1, 1, 8, 8)[0]

        def grads() -> list[torch.Tensor]:
            with amp.scale_loss(F.cross_entropy(model(inputs), target), optimizer) as scaled_loss:
                scaled_loss.backward()
            return [m.grad.clone() for m in amp.master_params(optimizer) if m.grad is not None]

        model.eval()
        first = grads()
        (optimizer if spelling == "optimizer" else model).zero_grad(set_to_none=set_to_none)
        assert all(p.grad is None if set_to_none else not p.grad.any() for p in model.parameters())
        assert_same(grads(), first)

    def test_gradients_zeroed_after_they_were_read_are_not_stepped_on(self) -> None:
        model, optimizer = start()
        before = weights_of(model)
        backward(model, optimizer)
        list(amp.master_params(optimizer))
        model.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.step()
        assert_same(weights_of(model), before)

    def test_zero_grad_of_a_subclass_is_called(self) -> None:
        class Counting(torch.optim.SGD):
            calls = 0

            def zero_grad(self, set_to_none: bool = True) -> None:
                self.calls += 1
                super().zero_grad(set_to_none)

        model = make_mlp()
        optimizer = Counting(model.parameters(), lr=0.1)
        amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
        backward(model, optimizer)
        optimizer.zero_grad()
        assert optimizer.calls == 1
        assert all(p.grad is None for p in model.parameters())


class TestReading:
    @pytest.mark.parametrize("level", LEVELS)
    def test_the_model_s_gradients_stay_scaled_and_the_masters_are_not(self, level: str) -> None:
        model, optimizer = start(level)
        backward(model, optimizer)
        scale = 65536.0 if level == "O2" else 1.0
        for p, master in zip(model.parameters(), masters_of(optimizer), strict=True):
            assert p.grad is not None
            assert master.grad is not None
            assert master.grad.dtype is torch.float32
            assert_same([master.grad * scale], [p.grad.float()])

    def test_a_list_of_masters_made_once_is_clipped_each_time(self) -> None:
        model, optimizer = start()
        masters = list(amp.master_params(optimizer))
        for _ in range(3):
            optimizer.zero_grad()
            backward(model, optimizer)
            assert clip_grad_norm_(masters, 1e-3) > 1e-3
            before = [m.detach().clone() for m in masters]
            optimizer.step()
        change = torch.cat([(m.detach() - b).flatten() for m, b in zip(masters, before, strict=True)]).norm()
        assert 0 < change < 1e-3

    def test_what_was_done_to_masters_gradients_between_two_backwards_stays_done(self) -> None:
        results = []
        for clipped in (True, False):
            model, optimizer = start()
            backward(model, optimizer)
            with torch.no_grad():
                for master in amp.master_params(optimizer):
                    assert master.grad is not None
                    master.grad.mul_(0.5 if clipped else 1.0)
            backward(model, optimizer)
            results.append([m.grad for m in amp.master_params(optimizer) if m.grad is not None])
        torch.testing.assert_close(results[0], [g * 0.75 for g in results[1]], rtol=2e-3, atol=1e-7)

    def test_losses_of_different_scales_add_up(self) -> None:
        model, optimizer = start(num_losses=2)
        amp.load_state_dict({f"loss_scaler{i}": {"loss_scale": 2.0 ** (10 + i), "unskipped": 0} for i in range(2)})
        for loss_id in (0, 1):
            with amp.scale_loss(model(X).square().mean(), optimizer, loss_id=loss_id) as scaled_loss:
                scaled_loss.backward()
        both = [m.grad.clone() for m in amp.master_params(optimizer) if m.grad is not None]
        optimizer.zero_grad()
        backward(model, optimizer)
        once = [m.grad for m in amp.master_params(optimizer) if m.grad is not None]
        torch.testing.assert_close(both, [2 * g for g in once], rtol=2e-3, atol=1e-7)

    def test_a_delayed_block_is_unscaled_when_masters_are_read(self) -> None:
        model, optimizer = start()
        with amp.scale_loss(model(X).square().mean(), optimizer, delay_unscale=True) as scaled_loss:
            scaled_loss.backward()
        for p, master in zip(model.parameters(), amp.master_params(optimizer), strict=True):
            assert p.grad is not None
            assert master.grad is not None
            assert_same([master.grad * 65536], [p.grad.float()])

    def test_a_clip_of_the_model_s_gradients_is_warned_of(self) -> None:
        model, optimizer = start()
        backward(model, optimizer)
        clip_grad_norm_(model.parameters(), 1.0)
        with pytest.warns(amp.AmpWarning, match=r"clip amp\.master_params\(optimizer\) instead of model\.parameters"):
            optimizer.step()

    def test_a_sum_over_processes_by_hand_gets_through(self) -> None:
        model, optimizer = start()
        backward(model, optimizer)
        expected = [3 * m.grad for m in amp.master_params(optimizer) if m.grad is not None]
        with torch.no_grad():
            for p in model.parameters():
                assert p.grad is not None
                p.grad.mul_(3)
        with pytest.warns(amp.AmpWarning, match="A sum over processes is fine"):
            grads = [m.grad for m in amp.master_params(optimizer) if m.grad is not None]
        torch.testing.assert_close(grads, expected, rtol=2e-3, atol=1e-7)


class TestWeightsChangedByTheScript:
    def test_clamped_weights_stay_clamped(self) -> None:
        model, optimizer = start()
        for _ in range(2):
            optimizer.zero_grad()
            backward(model, optimizer)
            optimizer.step()
            with torch.no_grad():
                for p in model.parameters():
                    p.clamp_(-0.05, 0.05)
        list_of_masters = masters_of(optimizer)
        assert max(v.abs().max() for v in model.state_dict().values()) <= 0.0501
        assert max(m.abs().max() for m in list_of_masters) <= 0.0501

    def test_masters_edited_by_the_script_are_what_the_next_forward_computes_with(self) -> None:
        model, optimizer = start()
        with torch.no_grad():
            for master in amp.master_params(optimizer):
                master.mul_(-3)
        model(X)
        assert_model_follows(model, optimizer)

    def test_loaded_weights_are_not_rounded(self) -> None:
        model, optimizer = start()
        other = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
        model.load_state_dict(other)
        assert_same([m.detach() for m in masters_of(optimizer)], list(other.values()))
        assert_model_follows(model, optimizer)
        assert_same(list(model.state_dict().values()), list(other.values()))

    def test_loading_by_assignment_is_refused(self) -> None:
        model, _ = start()
        with pytest.raises(RuntimeError, match=r"assign=True\) would replace 0.weight"):
            model.load_state_dict(model.state_dict(), assign=True)

    def test_loading_into_what_state_dict_returned(self) -> None:
        """Old scripts load so: `own_state[name].copy_(parameter)`."""
        model, optimizer = start()
        own = model.state_dict()
        for value in own.values():
            value.copy_(torch.full_like(value, 0.25))
        model(X)
        assert all((p == 0.25).all() for p in model.parameters())
        assert_model_follows(model, optimizer)


class TestCopies:
    def test_a_copy_computes_in_fp32_with_its_own_weights(self) -> None:
        model, optimizer = start()
        twin = copy.deepcopy(model)
        assert {p.dtype for p in twin.parameters()} == {torch.float32}
        with torch.no_grad():
            for p in twin.parameters():
                p.mul_(-3)
        assert not torch.allclose(twin(X), model(X))
        plain = make_mlp()
        plain.load_state_dict(twin.state_dict())
        assert_same([twin(X).detach()], [plain(X).detach()])
        assert_model_follows(model, optimizer)

    @pytest.mark.parametrize("way", ["parameters", "state_dict"])
    def test_an_average_of_weights_follows_exactly(self, way: str) -> None:
        model, optimizer = start()
        ema = copy.deepcopy(model).eval()
        expected = [value.clone() for value in ema.state_dict().values()]
        for _ in range(5):
            optimizer.zero_grad()
            backward(model, optimizer)
            optimizer.step()
            source = model.state_dict()
            expected = [e * 0.999 + 0.001 * value for e, value in zip(expected, source.values(), strict=True)]
            with torch.no_grad():
                targets = ema.named_parameters() if way == "parameters" else ema.state_dict().items()
                for name, value in targets:
                    value.mul_(0.999).add_(0.001 * source[name])
        assert_same(weights_of(ema), expected)

    def test_a_copy_of_both_is_a_plain_pair_that_trains(self) -> None:
        model, optimizer = copy.deepcopy(start())
        assert all(p is q for p, q in zip(model.parameters(), masters_of(optimizer), strict=True))
        model(X).square().mean().backward()
        before = weights_of(model)
        optimizer.step()
        assert not torch.equal(weights_of(model)[0], before[0])

    @pytest.mark.parametrize("level", ["O1", "O2", "O3", "O4", "O5"])
    def test_a_saved_model_loads_with_nothing_of_ours(self, level: str, bfloat16: torch.dtype) -> None:
        model, _ = start(level, make_net("conv"))
        model.register_forward_hook(_noted, with_kwargs=True)
        file = io.BytesIO()
        torch.save(model, file)
        assert b"ampify" not in file.getvalue()
        assert b"getattr" not in file.getvalue()
        file.seek(0)
        trusted = [type(m) for m in model.modules()] + [_noted]
        with torch.serialization.safe_globals(trusted):
            loaded = torch.load(file, weights_only=True)
        assert list(loaded._forward_hooks.values()) == [_noted]
        assert len(loaded._forward_hooks_with_kwargs) == 1
        assert not loaded._forward_pre_hooks
        assert {p.dtype for p in loaded.parameters()} == {torch.float32}
        assert_same(weights_of(loaded), weights_of(model))

    @pytest.mark.parametrize("level", ["O1", "O2"])
    def test_a_shallow_copy_computes_the_same(self, level: str, bfloat16: torch.dtype) -> None:
        model, _ = start(level)
        assert_same([copy.copy(model)(X).detach()], [model(X).detach()])

    def test_an_optimizer_can_be_pickled(self) -> None:
        model, optimizer = start()
        backward(model, optimizer)
        optimizer.step()
        pickled = pickle.dumps(optimizer)
        assert b"ampify" not in pickled
        assert_same(
            [p.detach() for p in masters_of(pickle.loads(pickled))], [p.detach() for p in masters_of(optimizer)]
        )


def _noted(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
    """A hook of a script."""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["SGD", "Adam", "LBFGS"])
def test_closures(level: str, name: str) -> None:
    if name == "LBFGS" and level == "O2":
        pytest.skip("refused under scaling")

    def train(ours: bool) -> list[float]:
        model = make_mlp()
        keywords = {"max_iter": 4} if name == "LBFGS" else {}
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.05, **keywords)
        if ours:
            amp.initialize(model, optimizer, opt_level=level, verbosity=0)
        losses = []

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(X).square().mean()
            if ours:
                with amp.scale_loss(loss, optimizer) as scaled_loss:
                    scaled_loss.backward()
            else:
                loss.backward()
            losses.append(loss.item())
            return loss

        for _ in range(4):
            optimizer.step(closure)
        if ours:
            assert_model_follows(model, optimizer)
        return losses

    ours, plain = train(True), train(False)
    assert len(set(ours)) == len(ours)
    assert ours == pytest.approx(plain, rel=0.05, abs=0.01)
