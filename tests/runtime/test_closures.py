"""Closures given to `step`: cast as outside of it, scaled, and skipped if they overflow."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ampify_runtime import amp

from .training import X, assert_same, backward, make_mlp, plain_step, weights_of

SCALED: dict[str, Any] = {"opt_level": "O0", "loss_scale": "dynamic", "verbosity": 0}


class TestClosures:
    def run(self, scaled: bool, keyword: bool, overflow_at: int | None = None) -> tuple[list[torch.Tensor], list[Any]]:
        model = make_mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        if scaled:
            amp.initialize(model, optimizer, **SCALED)
        returned = []
        for step in range(4):

            def closure(step: int = step) -> torch.Tensor:
                optimizer.zero_grad(set_to_none=False)
                loss = model(X).square().mean()
                if scaled:
                    factor = float("inf") if step == overflow_at else 1.0
                    with amp.scale_loss(loss * factor, optimizer) as scaled_loss:
                        scaled_loss.backward()
                elif step != overflow_at:
                    loss.backward()
                return loss.detach()

            if not scaled and step == overflow_at:
                returned.append(closure())
            else:
                returned.append(optimizer.step(closure=closure) if keyword else optimizer.step(closure))
        return weights_of(model), returned

    @pytest.mark.parametrize("keyword", [True, False])
    @pytest.mark.parametrize("overflow_at", [None, 2])
    def test_are_scaled_and_skipped(self, keyword: bool, overflow_at: int | None) -> None:
        ours = self.run(True, keyword, overflow_at)
        theirs = self.run(False, keyword, overflow_at)
        assert_same(ours[0], theirs[0])
        assert_same(ours[1], theirs[1])

    def test_cast_inside_of_a_step_that_does_not(self) -> None:
        seen = []

        class Watching(torch.optim.SGD):
            def step(self, closure: Any = None) -> Any:
                seen.append(torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype)
                return super().step(closure)

        model = make_mlp()
        optimizer = Watching(model.parameters(), lr=0.1)
        amp.initialize(model, optimizer, opt_level="O4")

        def closure() -> torch.Tensor:
            seen.append(torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype)
            seen.append(model(X).dtype)
            with torch.autocast("cpu", enabled=False):
                seen.append(model(X).dtype)
            return torch.zeros(())

        optimizer.step(closure)
        assert seen == [torch.float32, torch.bfloat16, torch.bfloat16, torch.float32]
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.bfloat16

    def test_evaluated_twice_in_a_step_may_overflow_once(self) -> None:
        class Twice(torch.optim.SGD):
            def step(self, closure: Any = None) -> Any:
                closure()
                return super().step(closure)

        model, plain_model = make_mlp(), make_mlp()
        optimizer = Twice(model.parameters(), lr=0.1)
        amp.initialize(model, optimizer, **SCALED)
        backward(model, optimizer)
        grads = [p.grad for p in model.parameters()]
        factors = iter((float("inf"), 1.0))

        def closure() -> None:
            optimizer.zero_grad(set_to_none=False)
            with amp.scale_loss(model(X).square().mean() * next(factors), optimizer) as scaled_loss:
                scaled_loss.backward()

        optimizer.step(closure)
        plain_step(plain_model, torch.optim.SGD(plain_model.parameters(), lr=0.1))
        assert_same(weights_of(model), weights_of(plain_model))
        assert all(p.grad is grad for p, grad in zip(model.parameters(), grads, strict=True))

    def test_lbfgs_at_o4_sees_the_weights_it_moves(self) -> None:
        def train(ours: bool) -> list[torch.Tensor]:
            model = make_mlp()
            optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
            if ours:
                amp.initialize(model, optimizer, opt_level="O4")

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                if ours:
                    loss = model(X).float().square().mean()
                    with amp.scale_loss(loss, optimizer) as scaled_loss:
                        scaled_loss.backward()
                else:
                    with torch.autocast("cpu", dtype=torch.bfloat16):
                        loss = model(X).float().square().mean()
                    loss.backward()
                return loss

            for _ in range(3):
                optimizer.step(closure)
            return weights_of(model)

        theirs = train(ours=False)
        assert_same(train(ours=True), theirs)
