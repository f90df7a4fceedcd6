"""The public names of `mlp`, as apex has them."""

from .mlp import MLP, mlp_function

__all__ = ["MLP", "mlp_function"]
