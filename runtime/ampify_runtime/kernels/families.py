"""Owns the table of kernels: their source files, what variants are compiled for, what arguments each one takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch


class Unusable(Exception):
    """Kernels that cannot be used here; the message is the reason, a phrase for a warning."""


@dataclass(frozen=True, slots=True)
class Family:
    """The kernels of one source file, compiled together.

    `parameters`: the macros that a variant defines, in order. `entries`: each kernel's arguments, a letter for each:
    T a table, S spans, p a pointer, f float, d double, i int32, u uint32, q int64.
    """

    file: str
    parameters: tuple[str, ...]
    entries: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Variant:
    """A family compiled for certain element types: the values of its parameters, in their order."""

    family: str
    values: tuple[str, ...] = ()

    @property
    def defines(self) -> tuple[tuple[str, str], ...]:
        """Macro and value, of each parameter."""
        return tuple(zip(FAMILIES[self.family].parameters, self.values, strict=True))

    def __str__(self) -> str:
        return " ".join([self.family, *(f"{macro.lower()}={value}" for macro, value in self.defines)])


_UPDATE = ("GRAD", "PARAM", "STATE", "MODEL")
_NORM = ("INPUT", "WEIGHT", "BIAS", "OUTPUT", "CENTERED")

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "scale": Family("scale.cu", ("INPUT", "OUTPUT"), {"scale": "Tfppu"}),
        "axpby": Family("axpby.cu", ("X", "Y", "OUTPUT"), {"axpby": "Tfpfppuii"}),
        "grad_stats": Family("grad_stats.cu", ("INPUT",), {"grad_stats": "Tpp", "largest": "Tp"}),
        "totals": Family("totals.cu", (), {"sum_blocks": "Spp", "largest_of_blocks": "Spp", "norms_of_sums": "pqp"}),
        "step_prep": Family("step_prep.cu", (), {"step_prep": "ppqppfpipddipddpddiff"}),
        "adam": Family("adam.cu", _UPDATE, {"adam": "Tpffffffi"}),
        "sgd": Family("sgd.cu", _UPDATE, {"sgd": "Tpfffiii"}),
        "adagrad": Family("adagrad.cu", _UPDATE, {"adagrad": "Tpffi"}),
        "novograd": Family("novograd.cu", _UPDATE, {"novograd_norms": "ppipffii", "novograd": "Tppffffi"}),
        "lamb": Family(
            "lamb.cu",
            _UPDATE,
            {"lamb_moments": "Tppfffffff", "lamb_ratios": "Spppi", "lamb_apply": "Tppff"},
        ),
        "row_norm": Family(
            "row_norm.cu",
            _NORM,
            {
                "row_norm": "ppppppif",
                "row_norm_backward": "ppppppi",
                "row_norm_strips": "pppppqii",
                "row_norm_weights": "pppii",
            },
        ),
    }
)

# The names that the sources give to element types.
ELEMENT_TYPES: Mapping[torch.dtype, str] = MappingProxyType(
    {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
)
NOTHING = "nothing"


def _update_variants(family: str) -> list[Variant]:
    half = ("float16", "bfloat16")
    masters = [Variant(family, (grad, "float32", "float32", model)) for model in half for grad in (model, "float32")]
    alone = [Variant(family, (kind, kind, "float32", NOTHING)) for kind in ("float32", *half)]
    return masters + alone


def common_variants() -> tuple[Variant, ...]:
    """What ordinary training asks for, and `warmup` compiles: float32 and both half types, with and without masters."""
    kinds = tuple(ELEMENT_TYPES.values())
    variants = [Variant("totals"), Variant("step_prep")]
    variants += [Variant("grad_stats", (kind,)) for kind in kinds]
    variants += [Variant("scale", (source, to)) for source in kinds for to in kinds]
    variants += [Variant("axpby", (kind, kind, kind)) for kind in kinds]
    for family in ("adam", "sgd", "adagrad", "novograd", "lamb"):
        variants += _update_variants(family)
    variants += [
        Variant("row_norm", (half, "float32", bias, out, centered))
        for half in ("float16", "bfloat16")
        for bias, centered in (("float32", "1"), (NOTHING, "0"))
        for out in ("float32", half)
    ]
    return tuple(variants)
