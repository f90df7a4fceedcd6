"""The public names of `amp`, with apex's signatures: what a training script calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from .._core import ambient, process_casts, scalers
from .._core.arguments import read_bool, read_count, read_verbosity
from .._core.cast_lists import read_lists
from .._core.enrolment import require_optimizer
from .._core.function_casts import float_function, half_function, promote_function
from .._core.initialize import initialize as _initialize
from .._core.notices import AmpWarning
from .._core.policy import Request
from .._core.regions import leave_dead_regions
from .._core.scaled_loss import ScaledLoss
from .._core.unscaling import read_master_params
from ._amp_state import _amp_state
from .older import (
    init,
    init_trainer,
    register_float_function,
    register_half_function,
    register_promote_function,
    unscale,
)

__all__ = [
    "AmpWarning",
    "_amp_state",
    "disable_casts",
    "float_function",
    "half_function",
    "init",
    "init_trainer",
    "initialize",
    "load_state_dict",
    "loss_scale",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
    "unscale",
]


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: Any = True,
    opt_level: Any = "O1",
    cast_model_type: Any = None,
    patch_torch_functions: Any = None,
    keep_batchnorm_fp32: Any = None,
    master_weights: Any = None,
    loss_scale: Any = None,
    cast_model_outputs: Any = None,
    num_losses: Any = 1,
    verbosity: Any = 1,
    min_loss_scale: Any = None,
    max_loss_scale: Any = 2.0**24,
    *,
    cast_lists: Any = None,
) -> Any:
    """Put models and optimizers, each one or several, under an opt level. Call it once, before the training loop.

    Returns the same objects in the shape they were given; without optimizers, the models alone. Models must be on
    their device. Choices may be spelled as text, as argparse gives them.

    - "O0": nothing changes.
    - "O1": forwards run under `torch.autocast`, in float16 with dynamic loss scaling on CUDA. On the CPU nothing
      changes, unless the environment says `AMPIFY_DTYPE=bfloat16` or `float16`.
    - "O2": weights are float16, norms apart; the optimizer steps fp32 masters, which are in its groups from now on.
      Inputs are cast to fit, outputs to fp32; losses are scaled dynamically.
    - "O3": weights are float16, norms too; no masters, no scaling.
    - "O4": forwards run under `torch.autocast` in bfloat16, on CPU and CUDA, without loss scaling.
    - "O5": as O2 in bfloat16, without loss scaling.

    `keep_batchnorm_fp32` (norms of every kind), `master_weights`, `loss_scale`, `cast_model_type` and
    `cast_model_outputs` override what a level says. Wrap models (DistributedDataParallel, DataParallel) after this call
    at O2, O3 and O5.

    `cast_lists` says which functions run in which type under O1 and O4: "torch", those of `torch.autocast`, or "apex".
    It holds for the whole process, and is what `AMPIFY_CAST_LISTS` in the environment says if left out, else "torch".

    `AMPIFY_OPT_LEVEL` in the environment overrides `opt_level` and the choices that go with it.
    Raises ValueError for choices that are unknown, not available or contradictory, TypeError for what is no model or
    no optimizer of torch.
    """
    request = Request(
        enabled=read_bool("enabled", enabled),
        opt_level=opt_level,
        cast_model_type=cast_model_type,
        patch_torch_functions=patch_torch_functions,
        keep_batchnorm_fp32=keep_batchnorm_fp32,
        master_weights=master_weights,
        loss_scale=loss_scale,
        cast_model_outputs=cast_model_outputs,
        verbosity=read_verbosity(verbosity),
        min_loss_scale=min_loss_scale,
        max_loss_scale=max_loss_scale,
    )
    lists = read_lists(cast_lists)
    initialized = _initialize(models, optimizers, request, read_count("num_losses", num_losses))
    process_casts.follow_casts(lists)
    return initialized


def scale_loss(
    loss: Any,
    optimizers: Any = None,
    loss_id: int = 0,
    model: Any = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> AbstractContextManager[Any]:
    """A `with` block for the backward of `loss`, a tensor or an iterable of tensors; yields it scaled.

    After the block, `.grad` of the parameters reads unscaled, accumulated or not, unless `delay_unscale`. `optimizers`
    are those that `loss` trains, one or several, or a trainer that `init_trainer` was given; if left out, all that this
    thread trains with. `loss_id` picks one of `num_losses` scales. With `delay_overflow_check`, gradients are looked at
    in the step instead of here. `model` is not used. Blocks inside of a block share its scale and its end.
    """
    optimizers = process_casts.known_optimizers(optimizers)
    return ScaledLoss(loss, optimizers, loss_id, delay_unscale, delay_overflow_check)


def master_params(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """The parameters that `optimizer` steps, in fp32: those to clip."""
    return read_master_params(require_optimizer(optimizer, "amp.master_params"))


def state_dict(destination: dict[str, Any] | None = None) -> dict[str, Any]:
    """The loss scales, for a checkpoint: `loss_scaler0: {loss_scale, unskipped}` and so on, as apex wrote them.

    They are put into `destination` if it is given, which is returned.
    """
    state = {} if destination is None else destination
    state.update(scalers.scalers_state())
    return state


def load_state_dict(state_dict: Mapping[str, Any]) -> None:
    """Go on with the loss scales of a checkpoint, ours or apex's; before `initialize`, keep them until then."""
    scalers.load_scalers(state_dict)


def loss_scale(loss_id: int = 0) -> float:
    """The scale of a loss, for logging; 1.0 where losses are not scaled. Waits for the device."""
    return scalers.current_scale(loss_id)


@contextmanager
def disable_casts() -> Iterator[None]:
    """A `with` block in which nothing is cast in this thread, not even in the forward of an initialized model."""
    leave_dead_regions()
    with ambient.banned():
        yield
