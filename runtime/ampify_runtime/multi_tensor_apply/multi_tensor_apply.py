"""Owns MultiTensorApply, through which scripts call the functions of `amp_C`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


class MultiTensorApply:
    """Calls an operation of `ampify_runtime.amp_C` with a chunk size that apex's kernels want and ours ignore.

    `available` is always true: the operations work on every device.
    """

    available = True
    warned = False

    def __init__(self, chunk_size: int) -> None:
        self.chunk_size = chunk_size

    def check_avail(self) -> None:
        """Nothing can be missing here; apex raises where its extensions are not built."""

    def __call__(
        self,
        op: Callable[..., Any],
        noop_flag_buffer: torch.Tensor,
        tensor_lists: Sequence[Sequence[torch.Tensor]],
        *args: Any,
    ) -> Any:
        """`op(chunk_size, noop_flag_buffer, tensor_lists, *args)`."""
        self.check_avail()
        return op(self.chunk_size, noop_flag_buffer, tensor_lists, *args)
