"""Operations that sum up many tensors into a few numbers, and the one that decides about a step by them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .. import backend
from ..state import GradStats, Norms, ScaleUpdate, StepState

__all__ = ["Norms", "grad_stats", "l2norm", "max_norms", "step_prep"]


def l2norm(tensors: Sequence[Tensor]) -> Norms:
    """The 2-norm of each tensor and of all together; float32 sums, so a float16 input does not overflow in them.

    Bytes per element: one read of the tensor. Raises ValueError if `tensors` is empty (there is no device to answer
    on).
    """
    result: Norms = backend.of(tensors).l2norm(tensors)
    return result


def max_norms(tensors: Sequence[Tensor]) -> Tensor:
    """The largest magnitude in each tensor; float32, shape [number of tensors]; 0 for an empty one, NaN where one is.

    Bytes per element: one read of the tensor. Raises ValueError if `tensors` is empty.
    """
    result: Tensor = backend.of(tensors).max_norms(tensors)
    return result


def grad_stats(grads: Sequence[Tensor]) -> GradStats:
    """Sum of squares of each gradient, and whether any element of any is not finite, in one read.

    Bytes per element: one read of the gradient (2 for float16). Raises ValueError if `grads` is empty.
    """
    result: GradStats = backend.of(grads).grad_stats(grads)
    return result


def step_prep(
    state: StepState,
    stats: GradStats | None = None,
    *,
    lr: float | Tensor,
    step: int | Tensor = 0,
    betas: tuple[float, float] = (0.0, 0.0),
    bias_correction: bool = False,
    found_inf: Tensor | None = None,
    scale: Tensor | None = None,
    max_norm: float = 0.0,
    norm_epsilon: float = 1e-6,
    scale_update: ScaleUpdate | None = None,
) -> None:
    """Decide about a step on the device, and write `state`; nothing is read back.

    In this order:

    1. `skip` = `stats.found_inf` or `found_inf` (float32 or int32, one element) is not 0. With neither, never.
    2. `step`: a tensor (int32, one element, on the device) counts 1 up unless the step is skipped, and is what the step
       counts as; a number is the number of this step as it stands (nothing is counted).
    3. `inv_scale` = 1 / `scale` (float32, one element), computed in float64 and rounded once; 1 without.
    4. `grad_norm` = sqrt(sum of `stats.sums`) * `inv_scale`; 0 without `stats`.
    5. `clip` = min(1, `max_norm` / (`grad_norm` + `norm_epsilon`)) if `max_norm` > 0, else 1. `norm_epsilon` is 1e-6
       for what `torch.nn.utils.clip_grad_norm_` does, 0 for apex's LAMB. A norm that overflowed gives 0, a NaN gives
       NaN.
    6. `bias_correction1/2` = 1 - beta**step in float64, rounded once, if `bias_correction`; else 1.
    7. `lr`: a number, or float32 with one element on the device.
    8. With `scale_update`, `scale` and its tracker move (in place): after a skip the scale is multiplied by
       `backoff_factor` and the tracker is 0; else the tracker counts up, and at `growth_interval` the scale is
       multiplied by `growth_factor` (unless that is infinite) and the tracker is 0; then the scale is brought within
       [`lowest`, `highest`].

    An optimizer with several groups calls this once a group, with the same `stats`, and gives `scale_update` in the
    last. Raises ValueError for a clip without `stats`, or a `scale_update` without `scale`.
    """
    if max_norm > 0.0 and stats is None:
        raise ValueError(f"step_prep: max_norm={max_norm} needs the gradients' `stats`; call grad_stats first")
    if scale_update is not None and scale is None:
        raise ValueError("step_prep: scale_update moves `scale`, which was not given")
    backend.of([state.values]).step_prep(
        state,
        stats,
        lr=lr,
        step=step,
        betas=betas,
        bias_correction=bias_correction,
        found_inf=found_inf,
        scale=scale,
        max_norm=max_norm,
        norm_epsilon=norm_epsilon,
        scale_update=scale_update,
    )
