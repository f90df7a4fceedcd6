"""Rescales and checks gradients in place: a pass over each, grouped by device and type as torch's kernels want them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter

import torch

_gradient = attrgetter("grad")
_is_sparse = attrgetter("is_sparse")
_dtype = attrgetter("dtype")
_is_cpu = attrgetter("is_cpu")
_is_cuda = attrgetter("is_cuda")


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """All parameters in the optimizer's groups."""
    for group in optimizer.param_groups:
        yield from group["params"]


def gradients_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The gradients that there are; of a sparse one, its values; of a sharded one, this process's shard."""
    grads = [grad for group in optimizer.param_groups for grad in map(_gradient, group["params"]) if grad is not None]
    # Most are plain, and there are many: no Python per gradient to see that.
    is_plain = set(map(type, grads)) <= {torch.Tensor} and not any(map(_is_sparse, grads))
    return grads if is_plain else [_dense(grad) for grad in grads]


def _dense(grad: torch.Tensor) -> torch.Tensor:
    if type(grad) is not torch.Tensor:
        # A DTensor: this process's shard of it.
        grad = getattr(grad, "_local_tensor", grad)
    return grad._values() if grad.is_sparse else grad


def multiply(grads: list[torch.Tensor], factor: torch.Tensor) -> None:
    """Multiply in place by `factor`, shape []."""
    if not grads:
        return
    with torch.no_grad():
        for (device, _), group in _grouped(grads).items():
            torch._foreach_mul_(group, factor.to(device, non_blocking=True))


def multiply_and_check(grads: list[torch.Tensor], factor: torch.Tensor | None) -> torch.Tensor | None:
    """Multiply in place by `factor` (None: leave as they are); 1 if a gradient is not finite, else 0.

    The answer is float32 of shape [], on the device of the first gradient; None without gradients. Nothing waits for
    the device.
    """
    if not grads:
        return None
    founds = []
    with torch.no_grad():
        for (device, _), group in _grouped(grads).items():
            found_inf = torch.zeros((), dtype=torch.float32, device=device)
            by = torch.ones_like(found_inf) if factor is None else factor.to(device, non_blocking=True)
            torch._amp_foreach_non_finite_check_and_unscale_(group, found_inf, by)
            founds.append(found_inf)
    first = founds[0]
    for found_inf in founds[1:]:
        first = torch.maximum(first, found_inf.to(first.device, non_blocking=True))
    return first


def _grouped(grads: list[torch.Tensor]) -> dict[tuple[torch.device, torch.dtype], list[torch.Tensor]]:
    # Most are alike, and asked for many devices, torch makes as many objects.
    if _are_alike(grads):
        return {(grads[0].device, grads[0].dtype): grads}
    groups: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = defaultdict(list)
    for grad in grads:
        groups[grad.device, grad.dtype].append(grad)
    return groups


def _are_alike(grads: list[torch.Tensor]) -> bool:
    """Whether all have one type and are certainly on one device: the CPU, or one CUDA device."""
    if len(set(map(_dtype, grads))) > 1:
        return False
    # All others than CUDA's may have a number in common with them.
    first = grads[0]
    if first.is_cuda:
        return all(map(_is_cuda, grads)) and len(set(map(torch.Tensor.get_device, grads))) == 1
    return first.is_cpu and all(map(_is_cpu, grads))
