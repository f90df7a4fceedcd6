"""Small networks and data that the runtime's tests train with, and what they compare."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from ampify_runtime import amp
from torch import nn

Batch = tuple[torch.Tensor, torch.Tensor]

# Two examples for `make_mlp`.
X = torch.linspace(-1, 1, 16).reshape(2, 8)


class ConvNet(nn.Module):
    """Convolutions with batch norm, as image scripts have them; input [n, 1, 8, 8], output [n, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 6, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm1(self.conv1(x)))
        x = nn.functional.max_pool2d(x, 2)
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.head(x.mean(dim=(2, 3)))


class Recurrent(nn.Module):
    """An LSTM, and one linear layer used twice; input [n, 1, 8, 8] read as a sequence, output [n, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.mix = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, _ = self.lstm(x.squeeze(1))
        return self.head(torch.tanh(self.mix(torch.tanh(self.mix(out[:, -1])))))


NETS = {"conv": ConvNet, "recurrent": Recurrent}


def make_net(name: str) -> nn.Module:
    """The same weights on every call."""
    torch.manual_seed(1)
    return NETS[name]()


def make_mlp() -> nn.Module:
    """The same weights on every call; input [n, 8], output [n, 3]."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))


def make_batches(count: int, *shape: int) -> list[Batch]:
    """Inputs of 6 examples of `shape` and classes out of 3, the same on every call."""
    generator = torch.Generator().manual_seed(2)
    return [
        (torch.randn(6, *shape, generator=generator), torch.randint(0, 3, (6,), generator=generator))
        for _ in range(count)
    ]


def backward(model: nn.Module, optimizer: torch.optim.Optimizer, overflow: bool = False) -> None:
    """A scaled backward of the mean square of what `model` makes of `X`."""
    loss = model(X).float().square().mean()
    with amp.scale_loss(loss * float("inf") if overflow else loss, optimizer) as scaled_loss:
        scaled_loss.backward()


def plain_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """The same backward, unscaled, and a step."""
    model(X).square().mean().backward()
    optimizer.step()


def weights_of(*models: nn.Module) -> list[torch.Tensor]:
    """Copies of all parameters and buffers."""
    return [tensor.detach().clone() for model in models for tensor in model.state_dict().values()]


def assert_same(ours: Iterable[torch.Tensor], theirs: Iterable[torch.Tensor]) -> None:
    """Equal bit for bit, NaN to NaN."""
    ours, theirs = list(ours), list(theirs)
    assert len(ours) == len(theirs) > 0
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0, equal_nan=True)
