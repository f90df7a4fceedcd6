"""Owns the table of opt levels: what each sets where the caller of `amp.initialize` sets nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch


@dataclass(frozen=True, slots=True)
class Level:
    """The defaults of an opt level."""

    # What autocast casts to, function by function; None: no autocast.
    cast_dtype: torch.dtype | None
    # What the model's weights are; None: as they are.
    model_dtype: torch.dtype | None
    keeps_norms: bool
    has_masters: bool
    loss_scale: float | str


# apex's O0 to O3; O4 and O5 are those of AMD's fork of it.
LEVELS: Mapping[str, Level] = MappingProxyType(
    {
        "O0": Level(cast_dtype=None, model_dtype=None, keeps_norms=False, has_masters=False, loss_scale=1.0),
        "O1": Level(
            cast_dtype=torch.float16, model_dtype=None, keeps_norms=False, has_masters=False, loss_scale="dynamic"
        ),
        "O2": Level(
            cast_dtype=None, model_dtype=torch.float16, keeps_norms=True, has_masters=True, loss_scale="dynamic"
        ),
        "O3": Level(cast_dtype=None, model_dtype=torch.float16, keeps_norms=False, has_masters=False, loss_scale=1.0),
        "O4": Level(cast_dtype=torch.bfloat16, model_dtype=None, keeps_norms=False, has_masters=False, loss_scale=1.0),
        "O5": Level(cast_dtype=None, model_dtype=torch.bfloat16, keeps_norms=True, has_masters=True, loss_scale=1.0),
    }
)


def read_level(value: object, where: str) -> str:
    """The name of an opt level. Raises ValueError with `where` it was given."""
    name = str(value).strip()
    if name in LEVELS:
        return name
    levels = ", ".join(f'"{level}"' for level in LEVELS)
    letter = "; the first character is the letter O, not zero" if name[:1] in ("0", "o") else ""
    raise ValueError(f"{where} is {value!r}, which is no opt level{letter}; use one of {levels}")
