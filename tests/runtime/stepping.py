"""What the tests of optimizers share: parameters, gradients, and each algorithm written plainly in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim import Optimizer

SHAPES = ((5,), (3, 4), (1,), (2, 3, 1, 2), (0,), (129,))


def parameters(dtype: torch.dtype = torch.float32, seed: int = 0) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES]


def gradients(step: int, scale: float = 1.0) -> list[torch.Tensor]:
    """Exact in float16 and bfloat16, so that each optimizer is given the same."""
    generator = torch.Generator().manual_seed(100 + step)
    return [torch.randn(shape, generator=generator).bfloat16().half().double() * scale for shape in SHAPES]


def give(params: Iterable[torch.Tensor], grads: Iterable[torch.Tensor | None]) -> None:
    for parameter, gradient in zip(params, grads, strict=True):
        parameter.grad = None if gradient is None else gradient.to(parameter.dtype)


def train(optimizer: Optimizer, params: Sequence[torch.Tensor], steps: Iterable[int]) -> None:
    for step in steps:
        give(params, gradients(step))
        optimizer.step()


def assert_near(actual: Iterable[torch.Tensor], expected: Iterable[torch.Tensor], tolerance: float) -> None:
    for left, right in zip(actual, expected, strict=True):
        torch.testing.assert_close(left.detach().double(), right.detach().double(), rtol=tolerance, atol=tolerance)


@dataclass
class Plain:
    """An algorithm in float64, one parameter after the other: `update(parameter, gradient, state, step, all)`."""

    update: Callable[..., torch.Tensor]
    values: list[torch.Tensor]
    options: dict[str, Any]
    states: list[dict[str, torch.Tensor]] = field(default_factory=list)
    steps: int = 0

    def step(self, grads: Sequence[torch.Tensor]) -> None:
        self.steps += 1
        self.states = self.states or [{} for _ in self.values]
        norm = torch.stack([gradient.norm() for gradient in grads]).norm()
        for index, (value, gradient, state) in enumerate(zip(self.values, grads, self.states, strict=True)):
            self.values[index] = self.update(value, gradient, state, self.steps, norm, **self.options)


def plainly(update: Callable[..., torch.Tensor], params: Iterable[torch.Tensor], **options: Any) -> Plain:
    return Plain(update, [parameter.detach().double().clone() for parameter in params], options)


def adam(p, g, state, step, norm, *, lr, betas, eps, weight_decay, decoupled, corrected):  # type: ignore[no-untyped-def]
    """Kingma and Ba, algorithm 1; Loshchilov and Hutter, algorithm 2, line 12 for the decay."""
    if not decoupled:
        g = g + weight_decay * p
    m = state["m"] = betas[0] * state.get("m", 0 * g) + (1 - betas[0]) * g
    v = state["v"] = betas[1] * state.get("v", 0 * g) + (1 - betas[1]) * g * g
    if corrected:
        m, v = m / (1 - betas[0] ** step), v / (1 - betas[1] ** step)
    update = m / (v.sqrt() + eps)
    return p - lr * (update + (weight_decay * p if decoupled else 0))


def lamb(  # type: ignore[no-untyped-def]
    p, g, state, step, norm, *, lr, betas, eps, weight_decay, decoupled, corrected, averaged, max_norm, always
):
    """You et al., algorithm 2, after a clip by the norm of all gradients; no trust ratio without decay, unless asked."""
    g = g / torch.clamp(norm / max_norm, min=1.0)
    if not decoupled:
        g = g + weight_decay * p
    m = state["m"] = betas[0] * state.get("m", 0 * g) + ((1 - betas[0]) if averaged else 1.0) * g
    v = state["v"] = betas[1] * state.get("v", 0 * g) + (1 - betas[1]) * g * g
    if corrected:
        m, v = m / (1 - betas[0] ** step), v / (1 - betas[1] ** step)
    update = m / (v.sqrt() + eps) + (weight_decay * p if decoupled else 0)
    ratio = 1.0
    if (weight_decay or always) and p.norm() > 0 and update.norm() > 0:
        ratio = p.norm() / update.norm()
    return p - lr * ratio * update


def novograd(  # type: ignore[no-untyped-def]
    p, g, state, step, norm, *, lr, betas, eps, weight_decay, inside, corrected, averaged, norm_type, from_zero
):
    """Ginsburg et al., algorithm 1; the second moment is kept as a norm, blended as squares for the 2-norm."""
    if norm_type == 2:
        now = g.norm()
        before = state.get("v", torch.zeros_like(now) if from_zero else now)
        v = state["v"] = (betas[1] * before**2 + (1 - betas[1]) * now**2).sqrt()
    else:
        now = g.abs().max() if g.numel() else g.sum()
        before = state.get("v", torch.zeros_like(now) if from_zero else now)
        v = state["v"] = betas[1] * before + (1 - betas[1]) * now
    first, second = (1 - betas[0] ** step, (1 - betas[1] ** step) ** 0.5) if corrected else (1.0, 1.0)
    weight = (1 - betas[0]) if averaged else 1.0
    denominator = v / second + eps
    if inside:
        g = g / denominator + weight_decay * p
    m = state["m"] = betas[0] * state.get("m", 0 * g) + weight * g
    return p - lr * (m / first if inside else m / first / denominator + weight_decay * p)


def adagrad(p, g, state, step, norm, *, lr, eps, weight_decay, decoupled):  # type: ignore[no-untyped-def]
    """Duchi et al., with the decay in the gradient or beside it."""
    if not decoupled:
        g = g + weight_decay * p
    total = state["sum"] = state.get("sum", 0 * g) + g * g
    return p - lr * (g / (total.sqrt() + eps) + (weight_decay * p if decoupled else 0))


def sgd(p, g, state, step, norm, *, lr, momentum, dampening, weight_decay, nesterov, after):  # type: ignore[no-untyped-def]
    """Sutskever's momentum as torch.optim.SGD writes it; the decay before or after it."""
    if not after:
        g = g + weight_decay * p
    if momentum:
        buffer = state["m"] = momentum * state["m"] + (1 - dampening) * g if "m" in state else g
        g = g + momentum * buffer if nesterov else buffer
    return p - lr * (g + (weight_decay * p if after else 0))
