"""Owns apex's `DistributedDataParallel` and `Reducer`: gradients averaged over processes, by themselves or on call."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

_BYTES_PER_ELEMENT = 4


@dataclass(frozen=True, slots=True)
class _Reduction:
    """How gradients are added up over processes, where it is not as torch does it."""

    in_fp32: bool
    average: bool
    predivide: float


class DistributedDataParallel(nn.parallel.DistributedDataParallel):
    """`torch.nn.parallel.DistributedDataParallel` with apex's arguments.

    As apex's it broadcasts parameters from rank 0 once, leaves buffers alone, and lets parameters get no gradient.
    `message_size` is the number of elements in a bucket. With `allreduce_always_fp32`, gradients are added up in fp32;
    before that they are divided by `gradient_predivide_factor`, and after it, if `gradient_average`, multiplied by that
    over the number of processes. Arguments that tuned apex's own streams and buffers are accepted and change nothing.

    Raises ValueError for `shared_param`, which apex refused too, and for arguments that contradict `delay_allreduce`.
    """

    def __init__(
        self,
        module: nn.Module,
        message_size: int = 10000000,
        delay_allreduce: bool = False,
        shared_param: Any = None,
        allreduce_trigger_params: Any = None,
        retain_allreduce_buffers: bool = False,
        allreduce_always_fp32: bool = False,
        num_allreduce_streams: int = 1,
        allreduce_communicators: Any = None,
        gradient_average: bool = True,
        gradient_predivide_factor: float = 1.0,
        gradient_average_split_factor: float | None = None,
        prof: bool = False,
    ) -> None:
        _refuse_contradictions(delay_allreduce, shared_param, allreduce_trigger_params, num_allreduce_streams)
        with warnings.catch_warnings():
            # Its successor, of torch 2.13, broadcasts buffers at the start all the same.
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
            super().__init__(
                module,
                broadcast_buffers=False,
                # apex rebuilt its buckets when other parameters got gradients than before; torch looks each time.
                find_unused_parameters=True,
                bucket_cap_mb=max(1, message_size * _BYTES_PER_ELEMENT // 2**20),
            )
        predivide = (
            gradient_predivide_factor if gradient_average_split_factor is None else gradient_average_split_factor
        )
        reduction = _Reduction(allreduce_always_fp32, gradient_average, float(predivide))
        if reduction != _Reduction(False, True, 1.0):
            # torch checks a hook's annotations, as objects; a lambda has none.
            self.register_comm_hook(reduction, lambda state, bucket: _add_up(state, bucket))  # noqa: PLW0108

    def enable_allreduce(self) -> None:
        """Average gradients in backwards again."""
        self.require_backward_grad_sync = True

    def disable_allreduce(self) -> None:
        """Let gradients accumulate in this process alone, until `enable_allreduce`."""
        self.require_backward_grad_sync = False


def _refuse_contradictions(delay: bool, shared: Any, triggers: Any, streams: int) -> None:
    if shared is not None:
        raise ValueError(
            "DistributedDataParallel: shared_param is no option any more; leave it out, shared parameters need nothing"
        )
    for name, given in (("allreduce_trigger_params", triggers is not None), ("num_allreduce_streams", streams > 1)):
        if delay and given:
            raise ValueError(
                f"DistributedDataParallel: {name} says when to communicate during the backward, and "
                "delay_allreduce=True not to; leave one of them out"
            )


def _add_up(reduction: _Reduction, bucket: Any) -> Any:
    """A communication hook of torch's: takes a `GradBucket`, returns a future of its buffer."""
    buffer: torch.Tensor = bucket.buffer()
    total = buffer.float() if reduction.in_fp32 else buffer
    if reduction.predivide != 1.0:
        total.mul_(1.0 / reduction.predivide)
    world_size = dist.get_world_size()

    def finish(_: torch.futures.Future[Any]) -> torch.Tensor:
        if reduction.average:
            total.mul_(reduction.predivide / world_size)
        return buffer if total is buffer else buffer.copy_(total)

    work = dist.all_reduce(total, async_op=True)
    assert work is not None
    return work.get_future().then(finish)


class Reducer:
    """Averages gradients over processes when `reduce` is called: those of a module, or a list of tensors.

    Of a module, parameters are broadcast from rank 0 first.
    """

    def __init__(self, module_or_grads_list: nn.Module | Iterable[Any]) -> None:
        self.module: nn.Module | None = None
        self.grads: list[torch.Tensor] = []
        if isinstance(module_or_grads_list, nn.Module):
            self.module = module_or_grads_list
            # Not `.data`, whose changes nobody sees: there may be masters to follow.
            _communicate([parameter.detach() for parameter in self.module.parameters()], _broadcast)
        else:
            self.grads = _tensors_in(module_or_grads_list)

    def reduce(self) -> None:
        """Average, in place. Every process has to call it, with gradients of the same shapes."""
        grads = self.grads
        if self.module is not None:
            grads = [parameter.grad.detach() for parameter in self.module.parameters() if parameter.grad is not None]
        _communicate(grads, _average)


def _communicate(tensors: list[torch.Tensor], call: Callable[[torch.Tensor], None]) -> None:
    """Run `call` on all of `tensors`, those of a type and device laid out as one."""
    groups: dict[Any, list[torch.Tensor]] = defaultdict(list)
    for tensor in tensors:
        groups[tensor.device, tensor.dtype].append(tensor)
    with torch.no_grad():
        for group in groups.values():
            flat = _flatten_dense_tensors(group)  # type: ignore[no-untyped-call]
            call(flat)
            parts = _unflatten_dense_tensors(flat, group)  # type: ignore[no-untyped-call]
            for tensor, part in zip(group, parts, strict=True):
                tensor.copy_(part)


def _broadcast(flat: torch.Tensor) -> None:
    dist.broadcast(flat, 0)


def _average(flat: torch.Tensor) -> None:
    dist.all_reduce(flat)
    flat.div_(dist.get_world_size())


def _tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in _tensors_in(item)]
