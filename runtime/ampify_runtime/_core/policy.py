"""Owns the policy that `amp.initialize` derives from an opt level and its keywords: what is cast, how it scales."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from .arguments import read_loss_scale, read_optional_positive, read_positive
from .choices import Choices, settle_choices
from .levels import LEVELS, Level, read_level

INITIAL_SCALE = 2.0**16
# apex had no floor, and met scales of 0 that way. Symmetric to its cap; no real training comes near.
LOWEST_SCALE = 2.0**-24

DTYPE_VARIABLE = "AMPIFY_DTYPE"
LEVEL_VARIABLE = "AMPIFY_OPT_LEVEL"
_DTYPES = MappingProxyType({"bfloat16": torch.bfloat16, "float16": torch.float16})


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
    # What autocast casts to; None: no autocast.
    cast_dtype: torch.dtype | None
    # What the model's weights are cast to; None: they stay as they are.
    model_dtype: torch.dtype | None
    # What the models' outputs are cast to; None: they stay as they are.
    output_dtype: torch.dtype | None
    keeps_norms: bool
    has_masters: bool
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
        casts = (self.cast_dtype, self.model_dtype, self.output_dtype)
        return self.scales or any(dtype is not None for dtype in casts)


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
    for a type in place of float16, at O1 to O3. Raises ValueError for what is not available, or contradicts itself.
    """
    override = os.environ.get(LEVEL_VARIABLE, "").strip()
    if override:
        name, choices, loss_scale = read_level(override, f"the environment variable {LEVEL_VARIABLE}"), Choices(), None
    else:
        name = read_level(request.opt_level, "amp.initialize: opt_level")
        choices = _choices(name, request)
        loss_scale = read_loss_scale(request.loss_scale)
    level = LEVELS[name]
    dtype, inert_because = _reduced_dtype(name, level, choices, device_type)
    if loss_scale is None:
        loss_scale = 1.0 if dtype is torch.bfloat16 else level.loss_scale
    acts = request.enabled and inert_because is None
    reduces = acts and level.model_dtype is not None
    model_dtype = dtype if reduces and choices.casts_weights else None
    return Policy(
        opt_level=name,
        device_type=device_type,
        cast_dtype=dtype if acts and level.cast_dtype else None,
        model_dtype=model_dtype,
        output_dtype=(choices.output_dtype or (torch.float32 if model_dtype else None)) if request.enabled else None,
        keeps_norms=level.keeps_norms if choices.keeps_norms is None else choices.keeps_norms,
        has_masters=reduces and _first(choices.has_masters, level.has_masters),
        scaling=_scaling(loss_scale, request.min_loss_scale, request.max_loss_scale),
        dormant=not acts,
        verbosity=request.verbosity,
        inert_because=inert_because if request.enabled else None,
    )


def _choices(name: str, request: Request) -> Choices:
    return settle_choices(
        name,
        cast_model_type=request.cast_model_type,
        patch_torch_functions=request.patch_torch_functions,
        keep_batchnorm_fp32=request.keep_batchnorm_fp32,
        master_weights=request.master_weights,
        cast_model_outputs=request.cast_model_outputs,
    )


def _first(chosen: bool | None, default: bool) -> bool:
    return default if chosen is None else chosen


def _reduced_dtype(
    name: str, level: Level, choices: Choices, device_type: str
) -> tuple[torch.dtype | None, str | None]:
    """The type to reduce precision to, and why it is not done though the level would."""
    reduced = level.cast_dtype or level.model_dtype
    if reduced is None:
        return None, None
    asked = os.environ.get(DTYPE_VARIABLE, "").strip()
    if asked and asked not in _DTYPES:
        raise ValueError(
            f'the environment variable {DTYPE_VARIABLE} is {asked!r}; use "bfloat16" or "float16", or unset it'
        )
    if device_type not in ("cpu", "cuda"):
        return None, _unsupported(name, device_type)
    if choices.model_dtype not in (None, torch.float32):
        return choices.model_dtype, None
    # O4 and O5 name their type.
    if reduced is torch.bfloat16:
        return reduced, None
    if asked:
        return _DTYPES[asked], None
    if name == "O1" and device_type == "cpu":
        return None, (
            "the model is on the CPU, where reduced precision is slower more often than not, so opt level O1 changes "
            f'nothing: training goes on in fp32. Set {DTYPE_VARIABLE}=bfloat16 or use opt_level="O4" to have it anyway'
        )
    return reduced, None


def _unsupported(name: str, device_type: str) -> str:
    return (
        f"opt level {name} is not available on {device_type} devices in this version: training goes on in fp32. "
        "Use a CUDA device, or the CPU with O4 or O5"
    )


def _scaling(loss_scale: float | str, lowest: Any, highest: Any) -> Scaling:
    floor = read_optional_positive("min_loss_scale", lowest) or LOWEST_SCALE
    cap = read_positive("max_loss_scale", highest)
    if floor > cap:
        raise ValueError(f"amp.initialize: min_loss_scale={floor} is above max_loss_scale={cap}; swap or widen them")
    if isinstance(loss_scale, str):
        return Scaling(dynamic=True, initial=max(floor, min(cap, INITIAL_SCALE)), lowest=floor, highest=cap)
    return Scaling(dynamic=False, initial=loss_scale, lowest=floor, highest=cap)
