"""Where casts are on and where they are off: models, threads, blocks; compiled, traced, copied and saved models."""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from .casting import by_hand, in_thread, initialized, product_dtype
from .training import X, assert_same, make_batches, make_mlp, weights_of

pytestmark = pytest.mark.usefixtures("bfloat16")


class TestOnAndOff:
    def test_forward_and_loss_are_cast(self) -> None:
        model, _ = initialized()
        assert model(X).dtype is torch.bfloat16
        assert product_dtype() is torch.bfloat16

    def test_other_models_are_cast_as_all_code_is(self) -> None:
        initialized()
        assert make_mlp()(X).dtype is torch.bfloat16

    def test_off_inside_of_a_block_and_on_again_after_it(self) -> None:
        model, optimizer = initialized()
        with amp.scale_loss(model(X).sum(), optimizer):
            assert product_dtype() is torch.float32
        assert product_dtype() is torch.bfloat16

    def test_on_again_after_a_block_that_raises(self) -> None:
        model, optimizer = initialized()
        with pytest.raises(KeyboardInterrupt), amp.scale_loss(model(X).sum(), optimizer):
            raise KeyboardInterrupt
        assert product_dtype() is torch.bfloat16

    def test_a_forward_inside_of_a_block_is_cast(self) -> None:
        model, optimizer = initialized()
        with amp.scale_loss(model(X).sum(), optimizer):
            assert model(X).dtype is torch.bfloat16
            assert product_dtype() is torch.float32

    def test_disable_casts_reaches_into_models(self) -> None:
        model, _ = initialized()
        with amp.disable_casts():
            assert model(X).dtype is torch.float32
            assert product_dtype() is torch.float32
        with pytest.raises(ZeroDivisionError), amp.disable_casts():
            _ = 1 / 0
        assert model(X).dtype is torch.bfloat16
        assert product_dtype() is torch.bfloat16

    def test_a_region_that_the_script_disables_stays_disabled(self) -> None:
        model, _ = initialized()
        with torch.autocast("cpu", enabled=False):
            assert model(X).dtype is torch.float32

    def test_a_model_inside_of_a_model_keeps_what_the_outer_one_says(self) -> None:
        class Outer(nn.Module):
            def __init__(self, inner: nn.Module) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                with torch.autocast("cpu", enabled=False):
                    return self.inner(x)

        inner = make_mlp()
        outer = Outer(inner)
        amp.initialize([outer, inner], torch.optim.SGD(outer.parameters(), lr=0.1))
        assert outer(X).dtype is torch.float32
        assert inner(X).dtype is torch.bfloat16

    def test_a_model_that_calls_itself(self) -> None:
        class Tree(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.mix = nn.Linear(4, 4)
                self.dtypes: list[torch.dtype] = []

            def forward(self, x: torch.Tensor, depth: int) -> torch.Tensor:
                if depth:
                    x = self(x, depth - 1)
                out = self.mix(x)
                self.dtypes.append(out.dtype)
                return out

        tree = Tree()
        initialized(tree)
        tree(torch.ones(1, 4), 3)
        assert tree.dtypes == [torch.bfloat16] * 4
        assert torch.autocast_increment_nesting() == 1
        torch.autocast_decrement_nesting()

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_a_forward_that_is_broken_off_leaves_no_cache_behind(self, error: Any) -> None:
        """torch calls no hook of exit on Ctrl-C; the next forward must not find weights cast before it."""

        class Fragile(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = make_mlp()
                self.error: Any = None

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                out = self.net(x)
                if self.error is not None:
                    raise self.error
                return out

        model = Fragile()
        initialized(model)
        model.error = error
        with pytest.raises(error):
            model(X)
        model.error = None
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(-3)
        assert_same([model(X).detach()], [by_hand(model.net, X)])
        assert product_dtype() is torch.bfloat16
        assert torch.autocast_increment_nesting() == 1
        torch.autocast_decrement_nesting()

    def test_threads_cast_from_their_first_forward_on(self) -> None:
        model, _ = initialized()

        def work() -> tuple[torch.dtype, torch.dtype]:
            return model(X).dtype, product_dtype()

        assert in_thread(work) == (torch.bfloat16, torch.bfloat16)

    def test_threads_do_not_disturb_each_other(self) -> None:
        model, optimizer = initialized()

        def work() -> torch.dtype:
            with amp.disable_casts():
                return model(X).dtype

        loss = model(X).sum()
        with amp.scale_loss(loss, optimizer):
            assert in_thread(work) is torch.float32
            assert product_dtype() is torch.float32
        with amp.scale_loss(loss, optimizer):
            assert product_dtype() is torch.float32
        assert product_dtype() is torch.bfloat16

    def test_many_threads_at_once(self) -> None:
        model, _ = initialized()
        expected = by_hand(model, X)
        outputs: list[torch.Tensor] = []
        threads = [
            threading.Thread(target=lambda: outputs.extend(model(X).detach() for _ in range(20))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outputs) == 80
        assert_same(outputs, [expected] * 80)

    def test_initialize_again_replaces_the_casts(self) -> None:
        model, optimizer = initialized()
        amp.initialize(model, optimizer, opt_level="O0")
        assert model(X).dtype is torch.float32
        assert product_dtype() is torch.float32
        amp.initialize(model, optimizer, opt_level="O4")
        assert model(X).dtype is torch.bfloat16


class TestCheckpointedForward:
    @pytest.mark.parametrize("use_reentrant", [True, False])
    def test_recomputes_in_the_same_precision(self, use_reentrant: bool) -> None:
        def gradients(recompute: bool) -> list[torch.Tensor]:
            model, optimizer = initialized()
            x = X.clone().requires_grad_()
            out = checkpoint(model, x, use_reentrant=use_reentrant) if recompute else model(x)
            with amp.scale_loss(out.float().square().mean(), optimizer) as scaled_loss:
                scaled_loss.backward()
            return [p.grad.clone() for p in model.parameters() if p.grad is not None]

        assert_same(gradients(recompute=True), gradients(recompute=False))


class TestCompiled:
    @pytest.mark.parametrize("compile_first", [True, False])
    def test_computes_what_the_eager_model_does(self, compile_first: bool) -> None:
        model = make_mlp()
        if compile_first:
            compiled: Any = torch.compile(model, backend="eager", fullgraph=True)
            initialized(compiled)
        else:
            initialized(model)
            compiled = torch.compile(model, backend="eager", fullgraph=True)
        for _ in range(2):
            out = compiled(X)
            assert out.dtype is torch.bfloat16
            assert_same([out.detach()], [by_hand(model, X)])
            with torch.no_grad():
                for p in model.parameters():
                    p.mul_(-3)


class TestScripted:
    def test_a_scripted_model_is_cast_as_all_code_is(self) -> None:
        model = torch.jit.script(make_mlp())
        initialized(model)
        assert model(X).dtype is torch.bfloat16

    def test_a_traced_model_computes_what_the_eager_one_does(self) -> None:
        model, _ = initialized()
        assert_same([torch.jit.trace(model, X)(X).detach()], [by_hand(model, X)])


class TestCopies:
    def test_a_deep_copy_is_cast_and_independent(self) -> None:
        model, _ = initialized()
        twin = copy.deepcopy(model)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(-3)
        assert_same([twin(X).detach()], [by_hand(twin, X)])
        assert not torch.equal(twin(X), model(X))

    def test_a_saved_model_loads_and_trains_again(self) -> None:
        model, _ = initialized()
        file = io.BytesIO()
        torch.save(model, file)
        assert b"ampify" not in file.getvalue()
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        initialized(loaded)
        assert_same([loaded(X).detach()], [by_hand(model, X)])

    def test_state_dict_is_untouched(self) -> None:
        model, _ = initialized()
        assert list(model.state_dict()) == list(make_mlp().state_dict())
        assert_same(weights_of(model), weights_of(make_mlp()))


INERT = """
import sys, warnings, torch
from ampify_runtime import amp
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        model = torch.nn.Linear(2, 2)
        amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1))
assert model(torch.ones(1, 2)).dtype is torch.float32
for warning in caught:
    print(warning.filename, warning.lineno, warning.message)
"""


def test_o1_on_the_cpu_says_once_that_it_is_inert(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMPIFY_DTYPE")
    script = tmp_path / "train.py"
    script.write_text(INERT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"{script} 8 ampify: the model is on the CPU")
    assert "AMPIFY_DTYPE=bfloat16" in line
    assert 'opt_level="O4"' in line


def test_losses_in_a_loop_over_batches_match_hand_written_ones_in_a_thread() -> None:
    def ours() -> list[torch.Tensor]:
        model, optimizer = initialized()
        losses = []
        for inputs, target in make_batches(4, 8):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), target)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    def theirs() -> list[torch.Tensor]:
        model = make_mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for inputs, target in make_batches(4, 8):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(inputs), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    assert_same(in_thread(ours), in_thread(theirs))
