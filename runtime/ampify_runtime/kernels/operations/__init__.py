"""The operations of the kernels, as functions on lists of tensors: the contract that every caller keeps to.

Each chooses the CUDA kernels where the tensors are on a CUDA device and `usable` says so, else the plain torch of
`kernels.reference`, whose functions have the same names, signatures and results. On a CUDA device that the kernels
cannot use, the first call warns once, with the reason; on other devices nothing is said.

What holds for all of them:

- Lists that belong together have the same length, and their i-th tensors the same shape and device. All tensors of a
  call are on one device. Lists may mix dtypes and sizes, be empty, or hold empty tensors.
- float16, bfloat16 and float32 have kernels; arithmetic is float32. float64 goes to the reference.
- Any layout is right: dense tensors (also channels_last, also unaligned views) go to the kernels if all i-th tensors
  have the same strides; a gradient of other strides is copied first; tensors with gaps go to the reference. Sparse
  tensors raise TypeError.
- Nothing waits for the device, so all can be captured in a CUDA graph once each was called with the same dtypes before
  (compiling and loading cannot be captured). Results do not vary from run to run.
- They run without autograd: gradients neither flow nor are recorded. Outputs are written in place.
"""

from ..backend import Usability, usable
from ..state import GradStats, ScaleUpdate, StepState
from .elementwise import axpby, scale
from .layers import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from .reductions import Norms, grad_stats, l2norm, max_norms, step_prep
from .updates import adagrad, adam, lamb, novograd, sgd

__all__ = [
    "GradStats",
    "Norms",
    "ScaleUpdate",
    "StepState",
    "Usability",
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
    "usable",
]
