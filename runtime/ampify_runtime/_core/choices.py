"""Owns which keywords of `amp.initialize` go with which opt level: settled, warned of, or refused with a way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .arguments import read_dtype, read_optional_bool
from .levels import LEVELS, Level
from .notices import warn_once


@dataclass(frozen=True, slots=True)
class Choices:
    """What the caller chose that an opt level leaves open; None: nothing."""

    model_dtype: torch.dtype | None = None
    output_dtype: torch.dtype | None = None
    keeps_norms: bool | None = None
    has_masters: bool | None = None
    # Whether the level is to cast weights, if it does: a model may come with some of them reduced by hand.
    casts_weights: bool = True


def settle_choices(
    name: str,
    cast_model_type: Any,
    patch_torch_functions: Any,
    keep_batchnorm_fp32: Any,
    master_weights: Any,
    cast_model_outputs: Any,
) -> Choices:
    """The choices, as text or not, that go with the opt level `name`. Raises ValueError for contradictions."""
    level = LEVELS[name]
    casts_weights = cast_model_type is not False and cast_model_type != "False"
    model_dtype = read_dtype("cast_model_type", cast_model_type if casts_weights else None)
    _check_model_dtype(name, level, model_dtype)
    _check_patching(name, level, read_optional_bool("patch_torch_functions", patch_torch_functions))
    keeps_norms = read_optional_bool("keep_batchnorm_fp32", keep_batchnorm_fp32)
    has_masters = read_optional_bool("master_weights", master_weights)
    if level.cast_dtype is not None:
        _tell_of_no_effect(name, keeps_norms, has_masters)
    output_dtype = read_dtype("cast_model_outputs", cast_model_outputs)
    return Choices(model_dtype, output_dtype, keeps_norms, has_masters, casts_weights)


def _check_model_dtype(name: str, level: Level, dtype: torch.dtype | None) -> None:
    if dtype is None or dtype is level.model_dtype:
        return
    if level.model_dtype is None:
        if dtype is not torch.float32:
            instead = '"O5"' if dtype is torch.bfloat16 else '"O2" or "O3"'
            _refuse(
                "cast_model_type", dtype, name, "leaves weights in fp32", f"leave it out, or use opt_level={instead}"
            )
    elif dtype is torch.float32:
        _refuse(
            "cast_model_type", dtype, name, "casts the model's weights",
            'use opt_level="O0", with loss_scale="dynamic" if losses are to be scaled',
        )  # fmt: skip
    elif name == "O5":
        _refuse("cast_model_type", dtype, name, "casts the model's weights to bfloat16", 'use opt_level="O2"')


def _check_patching(name: str, level: Level, patches: bool | None) -> None:
    casts = level.cast_dtype is not None
    if patches is None or patches == casts:
        return
    other = "O1" if patches else "O0"
    does = "casts functions" if casts else "does not cast functions"
    _refuse("patch_torch_functions", patches, name, does, f'leave it out, or use opt_level="{other}"')


def _tell_of_no_effect(name: str, keeps_norms: bool | None, has_masters: bool | None) -> None:
    """apex refused these, though they change nothing."""
    if keeps_norms is not None:
        warn_once(
            f"keep_batchnorm_fp32 {name}",
            f"amp.initialize: keep_batchnorm_fp32={keeps_norms} has no effect at opt level {name}, which leaves all "
            "weights in fp32 and casts functions; leave it out",
        )
    if has_masters:
        warn_once(
            f"master_weights {name}",
            f"amp.initialize: master_weights=True has no effect at opt level {name}, where the weights stay fp32 and "
            "are their own masters; leave it out",
        )


def _refuse(keyword: str, value: Any, name: str, what: str, instead: str) -> None:
    raise ValueError(f"amp.initialize: {keyword}={value} contradicts opt_level={name!r}, which {what}; {instead}")
