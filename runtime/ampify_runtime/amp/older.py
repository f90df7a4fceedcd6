"""The older call forms: `init` with a handle or with trainers, and functions registered to be cast."""

from __future__ import annotations

from typing import Any

from .._core import cast_overrides, process_casts
from .._core.arguments import read_bool
from .._core.cast_lists import read_lists
from .._core.policy import Request
from .handle import AmpHandle, NoOpHandle

__all__ = [
    "init",
    "init_trainer",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "unscale",
]

_LEVELS = {"float16": "O1", "torch.float16": "O1", "bfloat16": "O4", "torch.bfloat16": "O4"}


def init(
    enabled: Any = True,
    loss_scale: Any = "dynamic",
    enable_caching: bool = True,
    verbose: bool = False,
    allow_banned: bool = False,
    *,
    target_dtype: Any = "float16",
    cast_lists: Any = None,
) -> AmpHandle | NoOpHandle:
    """Cast from now on, with no model named: on CUDA if there is a device, else on the CPU, as O1 does (O4: bfloat16).

    Then either use the handle (`handle.scale_loss(loss, optimizer)`, or `handle.wrap_optimizer(optimizer)` and its
    `scale_loss(loss)`), or `amp.init_trainer(trainer)` and `amp.scale_loss(loss, trainer)`. `enable_caching` changes
    nothing. With `allow_banned`, binary cross entropy is computed in float32 instead of being refused.
    Raises ValueError for a `target_dtype` other than float16 and bfloat16, and as `initialize` does.
    """
    if str(target_dtype) not in _LEVELS:
        raise ValueError(f'amp.init: target_dtype is {target_dtype!r}; use "float16" or "bfloat16"')
    active = read_bool("enabled", enabled)
    # bfloat16 needs no scaling, and its level has none unless asked for.
    level = _LEVELS[str(target_dtype)]
    request = Request(
        enabled=active,
        opt_level=level,
        cast_model_type=None,
        patch_torch_functions=None,
        keep_batchnorm_fp32=None,
        master_weights=None,
        loss_scale=None if level == "O4" and loss_scale == "dynamic" else loss_scale,
        cast_model_outputs=None,
        verbosity=1,
        min_loss_scale=None,
        max_loss_scale=2.0**24,
    )
    process_casts.start_casting(request, read_lists(cast_lists), allow_banned)
    return AmpHandle(enable_caching, verbose) if active else NoOpHandle()


def init_trainer(trainer: Any) -> None:
    """Have the losses of `trainer` scaled, and its steps skipped when gradients overflow; more calls change nothing.

    `trainer` is an optimizer, or an object that holds one as `.optimizer` or several as `.optimizers`.
    Raises RuntimeError if `amp.init` has not been called, TypeError for what holds no optimizer.
    """
    process_casts.join_optimizers(process_casts.require_trainer(trainer, "amp.init_trainer"))


def unscale(trainer: Any) -> None:
    """Divide the gradients of `trainer` by the loss scale now, for clipping; no more than once, and not what is."""
    process_casts.unscale_now(process_casts.require_trainer(trainer, "amp.unscale"))


def register_half_function(module: Any, name: str) -> None:
    """Run `module.name` in the reduced type wherever casts are on. Raises ValueError if there is no such function."""
    cast_overrides.register(module, name, "allow")


def register_float_function(module: Any, name: str) -> None:
    """Run `module.name` in fp32 wherever casts are on. Raises ValueError if there is no such function."""
    cast_overrides.register(module, name, "deny")


def register_promote_function(module: Any, name: str) -> None:
    """Run `module.name` in the widest type that it is given. Raises ValueError if there is no such function."""
    cast_overrides.register(module, name, "promote")
