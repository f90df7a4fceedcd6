"""Owns batch normalization over the batches of all processes, on CPU and CUDA, channels first or last."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

_BatchNorm = nn.modules.batchnorm._BatchNorm


class SyncBatchNorm(_BatchNorm):
    """Batch normalization with the mean and variance of the batches of all processes of a group.

    Input [n, c, ...], or [n, ..., c] with `channel_last`, of any floating type; the output has its type. Statistics are
    computed in fp32. `forward(input, z)` adds `z` after normalizing; `fuse_relu` then applies a ReLU. Processes may
    have batches of different sizes. In evaluation, and with one process, it is plain batch normalization.

    No subclass of torch's, which its DistributedDataParallel refuses on the CPU.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        channel_last: bool = False,
        fuse_relu: bool = False,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_group = process_group
        self.channel_last = channel_last
        self.fuse_relu = fuse_relu

    def forward(self, input: torch.Tensor, z: torch.Tensor | None = None) -> torch.Tensor:
        """Normalize `input`; see the class."""
        first = input.movedim(-1, 1) if self.channel_last and input.dim() > 2 else input
        normalized = self._normalize(first)
        output = normalized.movedim(1, -1) if first is not input else normalized
        output = output if z is None else output + z
        return functional.relu(output) if self.fuse_relu else output

    def _normalize(self, x: torch.Tensor) -> torch.Tensor:
        batch_statistics = self.training or not self.track_running_stats
        if not batch_statistics or self._world_size() == 1:
            return self._normalize_alone(x, batch_statistics)
        mean, variance, count = _statistics(x.float(), self.process_group)
        if self.training and self.track_running_stats:
            self._follow(mean.detach(), variance.detach() * (count / (count - 1).clamp(min=1)))
        shape = [1, -1] + [1] * (x.dim() - 2)
        output = (x.float() - mean.view(shape)) * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            output = output * self.weight.float().view(shape) + self.bias.float().view(shape)
        return output.to(x.dtype)

    def _normalize_alone(self, x: torch.Tensor, batch_statistics: bool) -> torch.Tensor:
        factor = self._count_batch() if self.training and self.track_running_stats else 0.0
        mean, variance = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
        return functional.batch_norm(x, mean, variance, self.weight, self.bias, batch_statistics, factor, self.eps)

    def _follow(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        factor = self._count_batch()
        for running, value in ((self.running_mean, mean), (self.running_var, variance)):
            assert running is not None
            running.lerp_(value.to(running.dtype), factor)

    def _count_batch(self) -> float:
        """The weight of this batch in the running statistics; `momentum=None` weighs all batches alike."""
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        return 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum

    def _world_size(self) -> int:
        initialized = dist.is_available() and dist.is_initialized()
        return dist.get_world_size(self.process_group) if initialized else 1


def _statistics(x: torch.Tensor, group: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean and biased variance of each channel of `x`, [n, c, ...], over all processes, and how many values they have.

    In two passes: the difference of the mean of squares and the square of the mean cancels. Gradients flow through
    both, to all processes.
    """
    others = [dimension for dimension in range(x.dim()) if dimension != 1]
    count = x.new_full((1,), x.numel() // max(1, x.size(1)))
    group = group if group is not None else dist.group.WORLD
    totals = _total(torch.cat([x.sum(others), count]), group)
    count = totals[-1].detach()
    mean = totals[:-1] / count
    centred = x - mean.view([1, -1] + [1] * (x.dim() - 2))
    return mean, _total(centred.square().sum(others), group) / count, count


def _total(values: torch.Tensor, group: Any) -> torch.Tensor:
    total: torch.Tensor = _Sum.apply(values, group)  # type: ignore[no-untyped-call]
    return total


class _Sum(torch.autograd.Function):
    """The sum of a tensor over processes; as each has a part in all of their results, so with the gradients."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        total = values.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        total = grads[0].clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


def convert_syncbn_model(module: nn.Module, process_group: Any = None, channel_last: bool = False) -> nn.Module:
    """`module` with every batch norm in it, or itself, replaced by a `SyncBatchNorm` that has its parameters."""
    if isinstance(module, _BatchNorm):
        return _converted(module, process_group, channel_last)
    for name, child in module.named_children():
        module.add_module(name, convert_syncbn_model(child, process_group, channel_last))
    return module


def _converted(norm: _BatchNorm, process_group: Any, channel_last: bool) -> SyncBatchNorm:
    converted = SyncBatchNorm(
        norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats, process_group, channel_last
    )
    if norm.affine:
        # The same parameters, so that an optimizer made before goes on with them.
        converted.weight, converted.bias = norm.weight, norm.bias
    converted.running_mean, converted.running_var = norm.running_mean, norm.running_var
    converted.num_batches_tracked = norm.num_batches_tracked
    return converted.train(norm.training)


def create_syncbn_process_group(group_size: int) -> Any:
    """The group of `group_size` neighbouring ranks that this process is in; None, all of them, for 0.

    Every process has to call it. Raises ValueError if `group_size` does not divide the number of processes.
    """
    if group_size == 0:
        return None
    world_size = dist.get_world_size()
    if group_size < 0 or world_size % group_size:
        raise ValueError(
            f"create_syncbn_process_group: group_size={group_size} does not divide the {world_size} processes; "
            "pass a divisor, or 0 for all"
        )
    groups = [dist.new_group(list(range(start, start + group_size))) for start in range(0, world_size, group_size)]
    return groups[dist.get_rank() // group_size]
