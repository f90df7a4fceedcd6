"""What a step says: of overflows, of many in a row, of gradients that no scaled backward made."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn

from .training import assert_same, backward, make_mlp, weights_of

SCALED: dict[str, Any] = {"opt_level": "O0", "loss_scale": "dynamic", "verbosity": 0}


class TestMessages:
    def start(self, **keywords: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
        model = make_mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        amp.initialize(model, optimizer, **(SCALED | {"verbosity": 1} | keywords))
        return model, optimizer

    def test_overflow_is_reported_with_the_new_scale(self, caplog: pytest.LogCaptureFixture) -> None:
        model, optimizer = self.start()
        with caplog.at_level(logging.WARNING):
            backward(model, optimizer, overflow=True)
            optimizer.step()
        assert [record.getMessage() for record in caplog.records] == [
            "ampify: gradient overflow: this step of SGD is skipped; loss scale: 32768"
        ]

    def test_overflow_is_not_reported_at_verbosity_0(self, caplog: pytest.LogCaptureFixture) -> None:
        model, optimizer = self.start(verbosity="0")
        backward(model, optimizer, overflow=True)
        optimizer.step()
        assert not caplog.records

    def test_a_long_run_of_skips_is_warned_of_once(self) -> None:
        model, optimizer = self.start(verbosity=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(30):
                optimizer.zero_grad()
                backward(model, optimizer, overflow=True)
                optimizer.step()
        (message,) = (str(warning.message) for warning in caught)
        assert message.startswith("ampify: 25 steps of SGD in a row were skipped")
        assert caught[0].filename == __file__

    def test_a_step_on_gradients_that_no_backward_made_is_warned_of(self) -> None:
        model, optimizer = self.start()
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        with pytest.warns(amp.AmpWarning, match=r"SGD\.step: no amp\.scale_loss block was given this optimizer"):
            optimizer.step()

    def test_a_second_step_on_gradients_that_overflowed_is_skipped_too(self) -> None:
        model, optimizer = self.start(verbosity=0)
        before = weights_of(model)
        backward(model, optimizer, overflow=True)
        optimizer.step()
        with pytest.warns(amp.AmpWarning, match="no amp.scale_loss block"):
            optimizer.step()
        assert_same(weights_of(model), before)

    @pytest.mark.parametrize("level", ["O0", "O2", "O4", "O5"])
    def test_a_step_without_gradients_is_warned_of_once(self, level: str) -> None:
        _, optimizer = self.start(opt_level=level)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer.step()
            optimizer.step()
        (message,) = (str(warning.message) for warning in caught)
        assert message.startswith("ampify: SGD.step: none of its parameters has a gradient")
        assert caught[0].filename == __file__

    def test_a_scale_at_its_minimum_is_warned_of(self) -> None:
        model, optimizer = self.start(min_loss_scale=32768.0)
        backward(model, optimizer, overflow=True)
        with pytest.warns(amp.AmpWarning, match="loss scale of SGD is at its minimum, 32768, and gradients still"):
            optimizer.step()
