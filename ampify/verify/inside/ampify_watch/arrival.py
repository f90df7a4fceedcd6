"""Calls back when a module has been imported, whoever imports it first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

Callback = Callable[[ModuleType], None]

# Before a name: in whatever package.
ANYWHERE = "*."


class _Told(Loader):
    """A module's own loader, and a callback after it."""

    def __init__(self, loader: Loader, callback: Callback) -> None:
        self.loader = loader
        self.callback = callback

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # What the script sees is the module's own loader.
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.callback(module)


class Arrivals(MetaPathFinder):
    """Finds nothing by itself: it lets the others find, and wraps the loader."""

    def __init__(self, callbacks: dict[str, Callback]) -> None:
        self.callbacks = callbacks
        self._looking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders have for a module that somebody waits for."""
        callback = self._callback(fullname)
        if callback is None or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec = find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Told(spec.loader, callback)
        return spec

    def _callback(self, fullname: str) -> Callback | None:
        for name, callback in self.callbacks.items():
            # A copy of the runtime may lie in any package.
            if fullname == name.removeprefix(ANYWHERE) or (name.startswith(ANYWHERE) and fullname.endswith(name[1:])):
                return callback
        return None


def on_arrival(callbacks: dict[str, Callback]) -> None:
    """Has each callback called with its module once that is imported; at once for those that are."""
    for name, callback in callbacks.items():
        if name in sys.modules:
            callback(sys.modules[name])
    sys.meta_path.insert(0, Arrivals(callbacks))
