"""The public names of `fused_dense`, as apex has them."""

from .fused_dense import FusedDense, FusedDenseGeluDense

__all__ = ["FusedDense", "FusedDenseGeluDense"]
