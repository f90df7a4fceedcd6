"""Bytes that each optimizer moves per parameter and step, counted from the lists that its kernels are declared with.

    python benchmarks/optimizer_bytes.py

The overflow check and the clip by the global norm are included. No time is measured, and none is claimed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ampify_runtime.kernels.families import FAMILIES, Variant
from ampify_runtime.kernels.sources import source_of

# The kernels of a step that touch every parameter, in order. What else is launched handles a few numbers a tensor.
STEPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Adam, AdamW": ("grad_stats", "adam"),
        "SGD, momentum": ("grad_stats", "sgd"),
        "Adagrad": ("grad_stats", "adagrad"),
        "NovoGrad": ("grad_stats", "novograd"),
        "LAMB": ("grad_stats", "lamb_moments", "lamb_apply"),
    }
)
# Sizes of elements: half-precision model and gradients, float32 master and state.
MIXED: Mapping[str, int] = MappingProxyType({"INPUT": 2, "GRAD": 2, "PARAM": 4, "STATE": 4, "MODEL": 2})

# The same, clip included, counted from NVIDIA/apex@e13873de (csrc/*.cu, O2's unscaling and copies, clip_grad_norm_)
# and from torch 2.14's fused kernels with GradScaler; None where there is no such optimizer.
APEX: Mapping[str, int] = MappingProxyType(
    {"Adam, AdamW": 52, "SGD, momentum": 40, "Adagrad": 44, "NovoGrad": 48, "LAMB": 64}
)
TORCH: Mapping[str, int | None] = MappingProxyType(
    {"Adam, AdamW": 48, "SGD, momentum": 40, "Adagrad": 40, "NovoGrad": None, "LAMB": None}
)

_LISTS = re.compile(r"using (\w+)_lists = Lists<(.*)>;")
_LIST = re.compile(r"(InOut|In|Out)<(\w+)>")
_PASSES = MappingProxyType({"In": (1, 0), "Out": (0, 1), "InOut": (1, 1)})


def declared_lists() -> dict[str, list[tuple[str, str]]]:
    """For each kernel, its lists as declared in the CUDA source: In, Out or InOut, and the name of the element type."""
    texts = [source_of(Variant(name, ("float32",) * len(each.parameters))).text for name, each in FAMILIES.items()]
    found = [match for text in texts for match in _LISTS.findall(text)]
    return {kernel: _LIST.findall(lists) for kernel, lists in found}


def bytes_of(kernel: str, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Bytes that one kernel reads and writes for each parameter."""
    passes = [(*_PASSES[kind], sizes[element]) for kind, element in declared_lists()[kernel]]
    return sum(reads * size for reads, _, size in passes), sum(writes * size for _, writes, size in passes)


def bytes_of_step(optimizer: str, sizes: Mapping[str, int] = MIXED) -> int:
    """Bytes that a whole step reads and writes for each parameter."""
    return sum(sum(bytes_of(kernel, sizes)) for kernel in STEPS[optimizer])


def table() -> str:
    """The table, as Markdown."""
    lines = ["| optimizer | kernels: read + write | ampify | apex O2 | torch.amp, fused |", "|---|---|---:|---:|---:|"]
    for optimizer, kernels in STEPS.items():
        parts = ", ".join("{} {} + {}".format(kernel, *bytes_of(kernel, MIXED)) for kernel in kernels)
        theirs = f"{APEX[optimizer]} | {TORCH[optimizer] or 'none'}"
        lines.append(f"| {optimizer} | {parts} | {bytes_of_step(optimizer)} | {theirs} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print("Bytes per parameter and step: float16 model and gradients, float32 master and state,")
    print("overflow check and clip by the global norm included.\n")
    print(table())
