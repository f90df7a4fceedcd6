"""O1 and O4 compute what hand-written autocast computes, bit for bit; O0 and `enabled=False`, what no ampify does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from ampify_runtime import amp
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import StepLR

from tests.processor import needs_cast_lstms

from .training import Batch, assert_same, make_batches, make_mlp, make_net, weights_of

Trace = tuple[list[torch.Tensor], list[torch.Tensor]]
STEPS = 5


@dataclass
class Amp:
    """The calls that a migrated script makes."""

    keywords: dict[str, Any]

    def initialize(self, models: Any, optimizers: Any) -> None:
        amp.initialize(models, optimizers, **self.keywords)

    def region(self) -> Any:
        return contextlib.nullcontext()

    def backward(self, loss: torch.Tensor, optimizers: Any, loss_id: int = 0) -> None:
        with amp.scale_loss(loss, optimizers, loss_id=loss_id) as scaled_loss:
            scaled_loss.backward()

    def parameters(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
        return amp.master_params(optimizer)


@dataclass
class ByHand:
    """What a person writes instead: one region for forward and loss, or none for fp32."""

    dtype: torch.dtype | None

    def initialize(self, models: Any, optimizers: Any) -> None:
        pass

    def region(self) -> Any:
        return torch.autocast("cpu", dtype=self.dtype) if self.dtype else contextlib.nullcontext()

    def backward(self, loss: torch.Tensor, optimizers: Any, loss_id: int = 0) -> None:
        loss.backward()

    def parameters(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
        return model.parameters()


Way = Amp | ByHand


def evaluate(way: Way, model: nn.Module, batch: Batch, criterion: nn.Module) -> torch.Tensor:
    model.eval()
    with torch.no_grad(), way.region():
        loss = criterion(model(batch[0]), batch[1])
    model.train()
    return loss


def train_classifier(way: Way, net: str) -> Trace:
    """Adam, a clip, a scheduler and an evaluation after each step."""
    model = make_net(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = StepLR(optimizer, 2, gamma=0.5)
    criterion = nn.CrossEntropyLoss()
    way.initialize(model, optimizer)
    losses = []
    for inputs, target in make_batches(STEPS, 1, 8, 8):
        optimizer.zero_grad()
        with way.region():
            loss = criterion(model(inputs), target)
        way.backward(loss, optimizer)
        norm = clip_grad_norm_(way.parameters(model, optimizer), 0.5)
        optimizer.step()
        scheduler.step()
        losses += [loss.detach(), norm, evaluate(way, model, (inputs, target), criterion)]
    return losses, weights_of(model)


def train_accumulating(way: Way, net: str) -> Trace:
    """A step after each three backwards, gradients zeroed in place."""
    model = make_net(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    way.initialize(model, optimizer)
    losses = []
    for index, (inputs, target) in enumerate(make_batches(3 * STEPS, 1, 8, 8)):
        with way.region():
            loss = F.cross_entropy(model(inputs), target) / 3
        way.backward(loss, optimizer)
        losses.append(loss.detach())
        if index % 3 == 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    return losses, weights_of(model)


def train_gan(way: Way, net: str) -> Trace:
    """Two models, two optimizers, three losses, two of them for one step."""
    discriminator = make_net(net)
    torch.manual_seed(3)
    generator = nn.Sequential(nn.Linear(5, 64), nn.Tanh(), nn.Linear(64, 64), nn.Unflatten(1, (1, 8, 8)))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=0.01)
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=0.01)
    criterion = nn.BCEWithLogitsLoss()
    way.initialize([discriminator, generator], [optimizer_d, optimizer_g])
    losses = []
    for real, _ in make_batches(STEPS, 1, 8, 8):
        noise, ones, zeros = real[:, 0, 0, :5], torch.ones(6), torch.zeros(6)
        discriminator.zero_grad()
        with way.region():
            loss_real = criterion(discriminator(real)[:, 0], ones)
        way.backward(loss_real, optimizer_d, 0)
        with way.region():
            fake = generator(noise)
        with way.region():
            loss_fake = criterion(discriminator(fake.detach())[:, 0], zeros)
        way.backward(loss_fake, optimizer_d, 1)
        optimizer_d.step()
        generator.zero_grad()
        with way.region():
            loss_g = criterion(discriminator(fake)[:, 0], ones)
        way.backward(loss_g, optimizer_g, 2)
        optimizer_g.step()
        losses += [loss_real.detach(), loss_fake.detach(), loss_g.detach()]
    return losses, weights_of(discriminator, generator)


LOOPS = {"classifier": train_classifier, "accumulating": train_accumulating, "gan": train_gan}


@pytest.fixture(params=sorted(LOOPS))
def loop(request: pytest.FixtureRequest) -> Callable[[Way, str], Trace]:
    return LOOPS[request.param]


@pytest.fixture(params=["conv", "recurrent"])
def net(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cast_net(net: str) -> str:
    """A net that runs in bfloat16 here."""
    if net == "recurrent":
        needs_cast_lstms()
    return net


def assert_equal_runs(ours: Trace, theirs: Trace) -> None:
    assert_same(ours[0], theirs[0])
    assert_same(ours[1], theirs[1])


def test_o4_is_hand_written_bfloat16(loop: Callable[[Way, str], Trace], cast_net: str) -> None:
    theirs = loop(ByHand(torch.bfloat16), cast_net)
    assert_equal_runs(loop(Amp({"opt_level": "O4", "num_losses": 3}), cast_net), theirs)


def test_o1_asked_for_bfloat16_is_hand_written_bfloat16(
    loop: Callable[[Way, str], Trace], cast_net: str, bfloat16: torch.dtype
) -> None:
    theirs = loop(ByHand(bfloat16), cast_net)
    assert_equal_runs(loop(Amp({"opt_level": "O1", "num_losses": 3}), cast_net), theirs)


@pytest.mark.parametrize("keywords", [{"opt_level": "O0"}, {"enabled": False}, {"opt_level": "O4", "enabled": "False"}])
def test_o0_and_disabled_are_plain_fp32(
    loop: Callable[[Way, str], Trace], net: str, keywords: dict[str, Any], bfloat16: torch.dtype
) -> None:
    theirs = loop(ByHand(None), net)
    assert_equal_runs(loop(Amp(keywords | {"num_losses": 3}), net), theirs)


@pytest.mark.filterwarnings("ignore:ampify. the model is on the CPU")
def test_o1_left_alone_on_the_cpu_is_plain_fp32(loop: Callable[[Way, str], Trace], net: str) -> None:
    theirs = loop(ByHand(None), net)
    assert_equal_runs(loop(Amp({"num_losses": 3}), net), theirs)


def test_the_environment_overrides_the_level(net: str, monkeypatch: pytest.MonkeyPatch, bfloat16: torch.dtype) -> None:
    theirs = train_classifier(ByHand(None), net)
    monkeypatch.setenv("AMPIFY_OPT_LEVEL", "O0")
    assert_equal_runs(train_classifier(Amp({"opt_level": "O1", "loss_scale": 128.0}), net), theirs)


def test_reduced_precision_really_is_reduced(cast_net: str) -> None:
    plain, _ = train_classifier(ByHand(None), cast_net)
    losses, _ = train_classifier(Amp({"opt_level": "O4"}), cast_net)
    assert any(not torch.equal(mine.float(), other.float()) for mine, other in zip(losses, plain, strict=True))


def test_o0_after_o1_in_one_process_computes_in_fp32(bfloat16: torch.dtype) -> None:
    first = make_mlp()
    amp.initialize(first, torch.optim.SGD(first.parameters(), lr=0.1))
    second = make_mlp()
    amp.initialize(second, torch.optim.SGD(second.parameters(), lr=0.1), opt_level="O0")
    assert second(torch.ones(1, 8)).dtype is torch.float32
    assert first(torch.ones(1, 8)).dtype is torch.bfloat16
