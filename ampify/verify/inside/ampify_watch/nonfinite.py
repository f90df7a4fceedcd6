"""Finds the module in whose output, or in whose gradient, a value that is not finite first appears."""

from __future__ import annotations

from typing import Any

from .naming import module_names
from .record import Record


class Finder:
    """Looks at the output of every module; made for a run of its own, since that takes time."""

    def __init__(self, torch: Any, record: Record) -> None:
        self.torch = torch
        self.record = record
        self.step = 0
        self._found: set[str] = set()

    def watch(self) -> None:
        """Starts looking."""
        self.torch.nn.modules.module.register_module_forward_hook(self._look)

    def begin_step(self, step: int) -> None:
        """Tells which step begins."""
        self.step = step - 1

    def look_at_gradients(self) -> None:
        """Looks for the first parameter whose gradient is not finite."""
        if "gradient" in self._found:
            return
        for module in self._models():
            for name, parameter in module.named_parameters():
                if parameter.grad is not None and not self._finite(parameter.grad):
                    self._note("gradient", f"{type(module).__name__}.{name}", str(parameter.grad.dtype)[6:])
                    return

    def _models(self) -> list[Any]:
        names = module_names(self.torch)
        import gc

        roots = [item for item in gc.get_objects() if id(item) in names and "." not in names[id(item)]]
        return [root for root in roots if issubclass(type(root), self.torch.nn.Module)]

    def _look(self, module: Any, args: Any, output: Any) -> None:
        if "output" in self._found:
            return
        for tensor in _tensors(self.torch, output):
            if not self._finite(tensor):
                name = module_names(self.torch).get(id(module), type(module).__name__)
                self._note("output", name, str(tensor.dtype)[6:])
                return

    def _finite(self, tensor: Any) -> bool:
        return not tensor.is_floating_point() or bool(self.torch.isfinite(tensor.detach()).all())

    def _note(self, where: str, name: str, dtype: str) -> None:
        self._found.add(where)
        self.record.write("nonfinite", where=where, name=name, dtype=dtype, step=self.step)


def _tensors(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in _tensors(torch, item)] if isinstance(value, list | tuple) else []
