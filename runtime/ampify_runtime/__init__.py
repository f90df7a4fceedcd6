"""Mixed-precision training with NVIDIA apex's names, on torch alone: what scripts migrated by ampify import."""

import importlib
from types import ModuleType

_SUBMODULES = frozenset(
    "amp amp_C fp16_utils fused_dense mlp multi_tensor_apply normalization optimizers parallel".split()
)


def __getattr__(name: str) -> ModuleType:
    """Import a public submodule when it is first used: `import ampify_runtime` alone reaches all, and costs nothing."""
    if name not in _SUBMODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f".{name}", __name__)
