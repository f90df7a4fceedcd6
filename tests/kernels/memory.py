"""Tensors in memory that shows what was written beside them, at an alignment that the test chooses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_GUARD_ELEMENTS = 32
_ALIGNMENT = 16


class Guarded:
    """Lists of tensors that lie in buffers of their own, each between stretches of a mark; `check` finds it unharmed."""

    def __init__(self) -> None:
        self._buffers: list[tuple[Tensor, Tensor]] = []

    def tensors(self, values: Sequence[Tensor], dtype: torch.dtype, shift: int = 0) -> list[Tensor]:
        """Copies of `values` as `dtype`, each `shift` elements after an address that 16 divides."""
        return [self._tensor(value, dtype, shift) for value in values]

    def _tensor(self, value: Tensor, dtype: torch.dtype, shift: int) -> Tensor:
        size = value.numel() + 2 * _GUARD_ELEMENTS + _ALIGNMENT
        buffer = torch.full((size,), -777.0, dtype=dtype)
        past = (buffer.data_ptr() + _GUARD_ELEMENTS * buffer.element_size()) % _ALIGNMENT // buffer.element_size()
        start = _GUARD_ELEMENTS + shift + (-past) % (_ALIGNMENT // buffer.element_size())
        tensor = buffer[start : start + value.numel()].view(value.shape)
        tensor.copy_(value)
        mask = torch.ones(size, dtype=torch.bool)
        mask[start : start + value.numel()] = False
        self._buffers.append((buffer, mask))
        assert tensor.data_ptr() % _ALIGNMENT == shift * buffer.element_size() % _ALIGNMENT or not value.numel()
        return tensor

    def check(self) -> None:
        """Raise AssertionError if anything was written outside of a tensor."""
        for buffer, mask in self._buffers:
            assert bool((buffer[mask] == -777.0).all()), "a kernel wrote outside of its tensors"


def random_tensors(sizes: Sequence[int], seed: int, scale: float = 1.0) -> list[Tensor]:
    """Normal values in float64, another set for each seed."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator, dtype=torch.float64) * scale for size in sizes]
