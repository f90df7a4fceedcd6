"""Finds the names that parameters and modules have in the script's models."""

from __future__ import annotations

import gc
from typing import Any


def names_of(torch: Any, parameters: list[Any]) -> list[str]:
    """The name of each parameter in the largest model that holds it, with the model's class; else its position."""
    wanted = {id(parameter): index for index, parameter in enumerate(parameters)}
    names = [f"parameter {index} {tuple(parameter.shape)}" for index, parameter in enumerate(parameters)]
    modules = [item for item in gc.get_objects() if _is_module(torch, item)]
    # Smallest first, so that the largest, the whole model, has the last word.
    for module in sorted(modules, key=lambda module: sum(1 for _ in module.modules())):
        for name, parameter in module.named_parameters():
            index = wanted.get(id(parameter))
            if index is not None:
                names[index] = f"{type(module).__name__}.{name}"
    return names


def module_names(torch: Any) -> dict[int, str]:
    """The name of each module, by its identity, in the largest model that holds it."""
    modules = [item for item in gc.get_objects() if _is_module(torch, item)]
    names: dict[int, str] = {}
    for module in sorted(modules, key=lambda module: sum(1 for _ in module.modules())):
        root = type(module).__name__
        for name, inner in module.named_modules():
            names[id(inner)] = f"{root}.{name}" if name else root
    return names


def _is_module(torch: Any, item: Any) -> bool:
    # By its type: asking an object for its class can run the code of a proxy.
    return issubclass(type(item), torch.nn.Module)
