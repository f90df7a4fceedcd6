"""Owns opt levels, and the policy that `amp.initialize` derives from one: what is cast, how losses are scaled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from .arguments import read_loss_scale, read_optional_bool, read_optional_positive, read_positive

INITIAL_SCALE = 2.0**16
# apex had no floor, and met scales of 0 that way. Symmetric to its cap; no real training comes near.
LOWEST_SCALE = 2.0**-24

DTYPE_VARIABLE = "AMPIFY_DTYPE"
LEVEL_VARIABLE = "AMPIFY_OPT_LEVEL"
_DTYPES = MappingProxyType({"bfloat16": torch.bfloat16, "float16": torch.float16})


@dataclass(frozen=True, slots=True)
class Level:
    """What an opt level sets where the caller sets nothing."""

    cast_dtype: torch.dtype | None
    loss_scale: float | str


LEVELS: Mapping[str, Level] = MappingProxyType(
    {
        "O0": Level(cast_dtype=None, loss_scale=1.0),
        "O1": Level(cast_dtype=torch.float16, loss_scale="dynamic"),
        "O4": Level(cast_dtype=torch.bfloat16, loss_scale=1.0),
    }
)
_NOT_YET = MappingProxyType(
    {
        "O2": ("it casts the model's weights to float16 and needs master weights", "O1"),
        "O3": ("it casts the model's weights to float16", "O1"),
        "O5": ("it casts the model's weights to bfloat16 and needs master weights", "O4"),
    }
)


@dataclass(frozen=True, slots=True)
class Scaling:
    """How a loss scaler starts and how far it may go."""

    dynamic: bool
    initial: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Policy:
    """What `amp.initialize` settled for its models and optimizers."""

    opt_level: str
    device_type: str
    # None: nothing is cast.
    cast_dtype: torch.dtype | None
    scaling: Scaling
    # Scaling is put off: this run computes in fp32, though its level would scale on another device.
    dormant: bool
    verbosity: int
    # Why the level does nothing here, for the user; None if it does what it says.
    inert_because: str | None = None

    @property
    def scales(self) -> bool:
        """Whether losses are multiplied by anything but 1."""
        return not self.dormant and (self.scaling.dynamic or self.scaling.initial != 1.0)

    @property
    def acts(self) -> bool:
        """Whether this run differs from one without ampify at all."""
        return self.scales or self.cast_dtype is not None


@dataclass(frozen=True, slots=True)
class Request:
    """The keywords of `amp.initialize`, as given."""

    enabled: bool
    opt_level: Any
    cast_model_type: Any
    patch_torch_functions: Any
    keep_batchnorm_fp32: Any
    master_weights: Any
    loss_scale: Any
    cast_model_outputs: Any
    verbosity: int
    min_loss_scale: Any
    max_loss_scale: Any


def resolve_policy(request: Request, device_type: str) -> Policy:
    """The policy for models on `device_type`.

    `AMPIFY_OPT_LEVEL` in the environment overrides the level and drops the other choices with it; `AMPIFY_DTYPE` asks
    for a type at O1. Raises ValueError for what is not available, or contradicts itself.
    """
    override = os.environ.get(LEVEL_VARIABLE, "").strip()
    name = read_level(override, f"the environment variable {LEVEL_VARIABLE}") if override else None
    if name is None:
        name = read_level(request.opt_level, "amp.initialize: opt_level")
        _refuse_what_needs_another_level(request, name)
    level = LEVELS[name]
    dtype, inert_because = _cast_dtype(name, level, device_type)
    dormant = not request.enabled or inert_because is not None
    loss_scale = None if override else read_loss_scale(request.loss_scale)
    if loss_scale is None:
        loss_scale = 1.0 if dtype is torch.bfloat16 else level.loss_scale
    return Policy(
        opt_level=name,
        device_type=device_type,
        cast_dtype=dtype if request.enabled else None,
        scaling=_scaling(loss_scale, request.min_loss_scale, request.max_loss_scale),
        dormant=dormant,
        verbosity=request.verbosity,
        inert_because=inert_because if request.enabled else None,
    )


def read_level(value: Any, where: str) -> str:
    """The name of an opt level of this version. Raises ValueError with `where` it was given."""
    name = str(value).strip()
    if name in LEVELS:
        return name
    if name in _NOT_YET:
        why, instead = _NOT_YET[name]
        raise ValueError(f'{where} is "{name}", which is not available in this version ({why}); use "{instead}"')
    levels = ", ".join(f'"{level}"' for level in LEVELS)
    letter = "; the first character is the letter O, not zero" if name[:1] in ("0", "o") else ""
    raise ValueError(f"{where} is {value!r}, which is no opt level{letter}; use one of {levels}")


def _cast_dtype(name: str, level: Level, device_type: str) -> tuple[torch.dtype | None, str | None]:
    """What to cast to, and why nothing is cast though the level would."""
    if name != "O1":
        supported = level.cast_dtype is None or device_type in ("cpu", "cuda")
        return (level.cast_dtype, None) if supported else (None, _unsupported(name, device_type))
    asked = os.environ.get(DTYPE_VARIABLE, "").strip()
    if asked and asked not in _DTYPES:
        raise ValueError(
            f'the environment variable {DTYPE_VARIABLE} is {asked!r}; use "bfloat16" or "float16", or unset it'
        )
    if device_type not in ("cpu", "cuda"):
        return None, _unsupported(name, device_type)
    if asked:
        return _DTYPES[asked], None
    if device_type == "cpu":
        return None, (
            "the model is on the CPU, where reduced precision is slower more often than not, so opt level O1 changes "
            f'nothing: training goes on in fp32. Set {DTYPE_VARIABLE}=bfloat16 or use opt_level="O4" to have it anyway'
        )
    return level.cast_dtype, None


def _unsupported(name: str, device_type: str) -> str:
    return (
        f"opt level {name} is not available on {device_type} devices in this version: training goes on in fp32. "
        "Use a CUDA device, or the CPU with O4"
    )


def _scaling(loss_scale: float | str, lowest: Any, highest: Any) -> Scaling:
    floor = read_optional_positive("min_loss_scale", lowest) or LOWEST_SCALE
    cap = read_positive("max_loss_scale", highest)
    if floor > cap:
        raise ValueError(f"amp.initialize: min_loss_scale={floor} is above max_loss_scale={cap}; swap or widen them")
    if isinstance(loss_scale, str):
        return Scaling(dynamic=True, initial=max(floor, min(cap, INITIAL_SCALE)), lowest=floor, highest=cap)
    return Scaling(dynamic=False, initial=loss_scale, lowest=floor, highest=cap)


def _refuse_what_needs_another_level(request: Request, name: str) -> None:
    casts = LEVELS[name].cast_dtype is not None
    if request.cast_model_type not in (None, "None", torch.float32, "torch.float32", "float32"):
        _refuse("cast_model_type", request.cast_model_type, name, "it casts the model's weights", 'use "O1" without it')
    if read_optional_bool("master_weights", request.master_weights):
        _refuse(
            "master_weights", True, name, "weights stay fp32 here, so that they are their own masters", "leave it out"
        )
    if request.cast_model_outputs not in (None, "None"):
        _refuse(
            "cast_model_outputs",
            request.cast_model_outputs,
            name,
            "outputs are left as they are",
            "cast the output yourself",
        )
    patches = read_optional_bool("patch_torch_functions", request.patch_torch_functions)
    if patches is not None and patches != casts:
        other = "O1" if patches else "O0"
        raise ValueError(
            f"amp.initialize: patch_torch_functions={patches} contradicts opt_level={name!r}, which does "
            f'{"" if casts else "not "}cast; leave it out, or use opt_level="{other}"'
        )
    read_optional_bool("keep_batchnorm_fp32", request.keep_batchnorm_fp32)


def _refuse(keyword: str, value: Any, level: str, why: str, instead: str) -> None:
    raise ValueError(
        f"amp.initialize: {keyword}={value!r} with opt_level={level!r} is not available in this version ({why}); "
        f"{instead}"
    )
