"""The functions of apex's compiled module `amp_C`, with its names and orders of arguments, over our own operations.

They are called through `multi_tensor_apply.multi_tensor_applier`. `tensor_lists` are lists of tensors that belong
together by position; `noop_flag` is int32 with one element; `chunk_size` is for apex's kernels, and not used here.
What is a float or an int there is one here. Results are written into the lists' tensors.
"""

from .adam import multi_tensor_adam, multi_tensor_adam_capturable, multi_tensor_adam_capturable_master
from .elementwise import (
    multi_tensor_axpby,
    multi_tensor_l2norm,
    multi_tensor_l2norm_mp,
    multi_tensor_l2norm_scale,
    multi_tensor_scale,
    multi_tensor_unscale_l2norm,
)
from .hysteresis import update_scale_hysteresis
from .lamb import multi_tensor_lamb, multi_tensor_lamb_mp, multi_tensor_lamb_stage1_cuda, multi_tensor_lamb_stage2_cuda
from .updates import multi_tensor_adagrad, multi_tensor_novograd, multi_tensor_sgd

__all__ = [
    "multi_tensor_adagrad",
    "multi_tensor_adam",
    "multi_tensor_adam_capturable",
    "multi_tensor_adam_capturable_master",
    "multi_tensor_axpby",
    "multi_tensor_l2norm",
    "multi_tensor_l2norm_mp",
    "multi_tensor_l2norm_scale",
    "multi_tensor_lamb",
    "multi_tensor_lamb_mp",
    "multi_tensor_lamb_stage1_cuda",
    "multi_tensor_lamb_stage2_cuda",
    "multi_tensor_novograd",
    "multi_tensor_scale",
    "multi_tensor_sgd",
    "multi_tensor_unscale_l2norm",
    "update_scale_hysteresis",
]
