"""Tells which modules are norms: those that O2 and O5 keep in fp32."""

from __future__ import annotations

import re

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.LocalResponseNorm, nn.CrossMapLRN2d)
# Norms that are none of torch's: RMSNorm of many libraries, fused ones, LayerNorm2d of vision code.
_NAMED_SO = re.compile(r"Norm(\dd)?$")


def is_norm(module: nn.Module) -> bool:
    """Whether `module` normalizes: torch's own norms, with weights or without, and single modules named `...Norm`.

    apex kept batch norms in fp32, and of those only the ones with weights. Statistics of all norms are sums of squares,
    which overflow float16 beyond 255 and lose what is small, so all of them are kept. A module with others inside, as a
    `PreNorm` block, is no norm itself.
    """
    if isinstance(module, _NORMS):
        return True
    return bool(_NAMED_SO.search(type(module).__name__)) and next(module.children(), None) is None


def takes_reduced_inputs(module: nn.Module) -> bool:
    """Whether torch's own kernels take reduced inputs with fp32 weights, compute in fp32, and answer reduced."""
    return isinstance(module, _NormBase)
