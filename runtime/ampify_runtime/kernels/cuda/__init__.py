"""The operations by the CUDA kernels: functions of the operations' names and signatures."""

from .elementwise import axpby, scale
from .layers import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from .preparation import step_prep
from .reductions import grad_stats, l2norm, max_norms
from .updates import adagrad, adam, lamb, novograd, sgd

__all__ = [
    "adagrad",
    "adam",
    "axpby",
    "grad_stats",
    "l2norm",
    "lamb",
    "layer_norm",
    "layer_norm_backward",
    "max_norms",
    "novograd",
    "rms_norm",
    "rms_norm_backward",
    "scale",
    "sgd",
    "step_prep",
]
