"""Counts the floating-point work of one step by module and by the type it ran in."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .record import Record

_REDUCED = ("float16", "bfloat16")


class Precision:
    """Samples one step: enters a dispatch mode before it and leaves after it."""

    def __init__(self, torch: Any, record: Record, sample: int) -> None:
        self.torch = torch
        self.record = record
        self.sample = sample
        self._mode: Any = None
        self._tracker: Any = None
        self._work: Counter[tuple[str, bool, str]] = Counter()

    def begin_step(self, step: int) -> None:
        """Starts or ends the sample as `step` begins."""
        if step == self.sample:
            self._enter()
        elif self._mode is not None:
            self._leave()

    def _enter(self) -> None:
        from torch.utils.module_tracker import ModuleTracker

        self._tracker = ModuleTracker()
        self._tracker.__enter__()
        self._mode = _counting_mode(self._count)
        self._mode.__enter__()

    def _leave(self) -> None:
        mode, self._mode = self._mode, None
        mode.__exit__(None, None, None)
        self._tracker.__exit__(None, None, None)
        rows = [[name, backward, dtype, work] for (name, backward, dtype), work in sorted(self._work.items())]
        self.record.write("precision", step=self.sample, rows=rows)

    def _count(self, operation: Any, args: Any, kwargs: Any, output: Any) -> None:
        from torch.utils.flop_counter import flop_registry

        count = flop_registry.get(operation._overloadpacket)
        if count is None:
            return
        dtype = next((str(t.dtype)[6:] for t in args if isinstance(t, self.torch.Tensor)), "")
        parents = [name for name in self._tracker.parents if name != "Global"]
        # The innermost module has the longest name.
        name = max(parents, key=len, default="")
        self._work[name, bool(self._tracker.is_bw), dtype] += int(count(*args, **kwargs, out_val=output))


def _counting_mode(count: Any) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            output = func(*args, **(kwargs or {}))
            count(func, args, kwargs or {}, output)
            return output

    return Counting()  # type: ignore[no-untyped-call]
